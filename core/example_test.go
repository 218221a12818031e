package core_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
)

// A report says site by site which forward is in place, or why the plain one stays.
func ExampleApplyDefaultKernels() {
	var model fakeModel
	for layer := range 12 {
		for _, site := range []struct {
			path string
			op   core.Op
		}{{"input_layernorm", core.RMSNorm}, {"self_attn", core.RoPE}, {"mlp", core.SwiGLU}} {
			model = append(model, core.Site{
				Path:  fmt.Sprintf("layers.%d.%s", layer, site.path),
				Op:    site.op,
				Facts: validFacts(site.op),
				Hook:  &fakeHook{},
			})
		}
	}
	reg := core.NewRegistry()
	for _, k := range []core.Kernel{
		newKernel("npu_fused_rmsnorm", core.RMSNorm),
		refuse(newKernel("npu_fused_rope", core.RoPE), "rotary_dim=4 of head_dim=6"),
	} {
		if err := reg.Register(k); err != nil {
			fmt.Println(err)
		}
	}

	report, err := core.ApplyDefaultKernels(context.Background(), model, reg, "all")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report)
	fmt.Println("restored:", report.Restore() == nil)
	// Output:
	// N   PATH                      FORWARD
	// 12  layers.*.input_layernorm  plain -> npu_fused_rmsnorm
	// 12  layers.*.self_attn        plain rope (npu_fused_rope: not supported:
	//       rotary_dim=4 of head_dim=6)
	// 12  layers.*.mlp              plain swiglu (no kernel offers swiglu)
	// 12 of 36 sites use a fused kernel
	// restored: true
}
