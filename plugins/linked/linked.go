// Package linked is the project's kernels as part of a program, without plugin processes:
// for embedding, and to measure what the boundary between processes costs.
package linked

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/plugins/npu_fused_attention/attention"
	"github.com/seed98097648/tune/plugins/npu_fused_linear_cross_entropy/linearcrossentropy"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/gate"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/moe"
	"github.com/seed98097648/tune/plugins/npu_fused_rmsnorm/rmsnorm"
	"github.com/seed98097648/tune/plugins/npu_fused_rope/rope"
	"github.com/seed98097648/tune/plugins/npu_fused_swiglu/swiglu"
)

// Kernels returns new kernels of each of the project's plugins, under the plugin's name.
// Register them in a core.Registry, each as kerneltest.Verified, to have plans compare
// them with the reference before they are placed, as plugins are. Another call returns
// other kernels, with scratch memory of their own.
func Kernels() []core.Kernel {
	return []core.Kernel{new(attention.Kernel), new(linearcrossentropy.Kernel), new(moe.Kernel), new(gate.Kernel),
		new(rmsnorm.Kernel), &rmsnorm.Kernel{Add: true}, new(rope.Kernel), new(swiglu.Kernel)}
}
