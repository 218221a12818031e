// Npu_fused_linear is a kernel plugin for the op linear, and for qkv and gate_up_swiglu, which are several of
// it in one; and for linear_w8a8. Packages linear, qkv, gateup and w8a8 are the kernels.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/gateup"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/linear"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/qkv"
	"github.com/seed98097648/tune/plugins/npu_fused_linear/w8a8"
)

func main() {
	plugin.Serve(linear.Name, linear.Version, new(linear.Kernel), new(qkv.Kernel), new(gateup.Kernel),
		new(w8a8.Kernel))
}
