// Npu_fused_linear_cross_entropy is a kernel plugin for the op linear_cross_entropy.
// Package linearcrossentropy is the kernel.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_linear_cross_entropy/linearcrossentropy"
)

func main() {
	plugin.Serve(linearcrossentropy.Name, linearcrossentropy.Version, new(linearcrossentropy.Kernel))
}
