// Npu_fused_attention_pre is a kernel plugin for the op attention_pre. Package pre is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_attention_pre/pre"
)

func main() { plugin.Serve(pre.Name, pre.Version, new(pre.Kernel)) }
