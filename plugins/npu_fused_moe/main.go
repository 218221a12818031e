// Npu_fused_moe is a kernel plugin for the ops moe_experts and moe_gate. Packages moe and
// gate are the kernels.
package main

import (
	"github.com/seed98097648/tune/core/plugin"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/gate"
	"github.com/seed98097648/tune/plugins/npu_fused_moe/moe"
)

func main() { plugin.Serve(moe.Name, moe.Version, new(moe.Kernel), new(gate.Kernel)) }
