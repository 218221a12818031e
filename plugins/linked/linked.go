// Package linked is the project's kernels as part of a program, without plugin processes:
// for embedding, and to measure what the boundary between processes costs.
package linked

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/npu_fused_attention/attention"
	"github.com/seed98097648/tune/plugins/npu_fused_attention_pre/pre"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/gateup"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/qkv"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/w8a8"
	"github.com/seed98097648/tune/plugins/npu_fused_linear_cross_entropy/linearcrossentropy"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/gate"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/moe"
	"github.com/seed98097648/tune/plugins/npu_fused_paged_attention/pagedattention"
	"github.com/seed98097648/tune/plugins/npu_fused_paged_attention/reshapecache"
	"github.com/seed98097648/tune/plugins/npu_fused_rmsnorm/rmsnorm"
	"github.com/seed98097648/tune/plugins/npu_fused_rope/rope"
	"github.com/seed98097648/tune/plugins/npu_fused_shared_expert/sharedexpert"
	"github.com/seed98097648/tune/plugins/npu_fused_swiglu/swiglu"
)

// Plugin is one of the project's plugins.
type Plugin struct {
	Name, Version string
	Kernels       func() []core.Kernel // new ones each time
}

// Plugins returns the project's plugins, sorted by name.
func Plugins() []Plugin {
	type list = []core.Kernel
	return []Plugin{
		{attention.Name, attention.Version, func() list { return list{new(attention.Kernel)} }},
		{pre.Name, pre.Version, func() list { return list{new(pre.Kernel)} }},
		{linear.Name, linear.Version, func() list {
			return list{new(linear.Kernel), new(qkv.Kernel), new(gateup.Kernel), new(w8a8.Kernel)}
		}},
		{linearcrossentropy.Name, linearcrossentropy.Version, func() list { return list{new(linearcrossentropy.Kernel)} }},
		{moe.Name, moe.Version, func() list { return list{new(moe.Kernel), new(gate.Kernel)} }},
		{pagedattention.Name, pagedattention.Version, func() list {
			return list{new(pagedattention.Kernel), reshapecache.Kernel{}}
		}},
		{rmsnorm.Name, rmsnorm.Version, func() list { return list{new(rmsnorm.Kernel), &rmsnorm.Kernel{Add: true}} }},
		{rope.Name, rope.Version, func() list { return list{new(rope.Kernel)} }},
		{sharedexpert.Name, sharedexpert.Version, func() list { return list{new(sharedexpert.Kernel)} }},
		{swiglu.Name, swiglu.Version, func() list { return list{new(swiglu.Kernel)} }},
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
