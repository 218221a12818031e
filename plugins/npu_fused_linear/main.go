// Npu_fused_linear is a kernel plugin for the op linear. Package linear is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
)

func main() { plugin.Serve(linear.Name, linear.Version, new(linear.Kernel)) }
