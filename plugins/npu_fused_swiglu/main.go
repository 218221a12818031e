// Npu_fused_swiglu is a kernel plugin for the op swiglu. Package swiglu is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_swiglu/swiglu"
)

func main() { plugin.Serve(swiglu.Name, swiglu.Version, new(swiglu.Kernel)) }
