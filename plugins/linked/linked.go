// Package linked is the project's kernels as part of a program, without plugin processes:
// for embedding, and to measure what the boundary between processes costs.
package linked

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/npu_fused_attention/attention"
	"github.com/seed98097648/tune/plugins/npu_fused_linear_cross_entropy/linearcrossentropy"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/moe"
	"github.com/seed98097648/tune/plugins/npu_fused_rmsnorm/rmsnorm"
	"github.com/seed98097648/tune/plugins/npu_fused_rope/rope"
	"github.com/seed98097648/tune/plugins/npu_fused_swiglu/swiglu"
)

// Plugin is one of the project's plugins.
type Plugin struct {
	Name, Version string
	Kernels       func() []core.Kernel // new ones each time
}

// Plugins returns the project's plugins, sorted by name.
func Plugins() []Plugin {
	return []Plugin{
		{Name: attention.Name, Version: attention.Version, Kernels: func() []core.Kernel { return []core.Kernel{new(attention.Kernel)} }},
		{Name: linearcrossentropy.Name, Version: linearcrossentropy.Version,
			Kernels: func() []core.Kernel { return []core.Kernel{new(linearcrossentropy.Kernel)} }},
		{Name: moe.Name, Version: moe.Version, Kernels: func() []core.Kernel { return []core.Kernel{new(moe.Kernel), new(moe.GateKernel)} }},
		{Name: rmsnorm.Name, Version: rmsnorm.Version, Kernels: func() []core.Kernel { return []core.Kernel{new(rmsnorm.Kernel), new(rmsnorm.AddKernel)} }},
		{Name: rope.Name, Version: rope.Version, Kernels: func() []core.Kernel { return []core.Kernel{new(rope.Kernel)} }},
		{Name: swiglu.Name, Version: swiglu.Version, Kernels: func() []core.Kernel { return []core.Kernel{new(swiglu.Kernel)} }},
	}
}

// Kernels returns new kernels of each of the project's plugins, under the plugin's name.
// Register them in a core.Registry, each as kerneltest.Verified, to have plans compare
// them with the reference before they are placed, as plugins are. Another call returns
// other kernels, with scratch memory of their own.
func Kernels() []core.Kernel {
	var all []core.Kernel
	for _, p := range Plugins() {
		all = append(all, p.Kernels()...)
	}
	return all
}
