// Npu_fused_attention is a kernel plugin for the op attention. Package attention is the
// kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_attention/attention"
)

func main() { plugin.Serve(attention.Name, attention.Version, new(attention.Kernel)) }
