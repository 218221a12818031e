// Npu_fused_rope is a kernel plugin for the op rope. Package rope is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_rope/rope"
)

func main() { plugin.Serve(rope.Name, rope.Version, new(rope.Kernel)) }
