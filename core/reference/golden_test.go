package reference_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/golden"
)

// TestAgreesWithPublishedCode compares the references, on float64 tensors, with the
// models' own code run in float64. An op all of whose tensors are float64 agrees to
// 1e-10; one that has float32 tensors even then (tables, routing weights, gradients of
// weights) to one rounding of those.
func TestAgreesWithPublishedCode(t *testing.T) {
	limits := map[core.Op]float64{
		core.RMSNorm: 0x1p-23, core.AddRMSNorm: 0x1p-23, core.MoEGate: 1e-10, core.SwiGLU: 1e-10, core.RoPE: 0x1p-23,
		core.MoEExperts: 0x1p-23,
		core.LinearW8A8: 1e-10,
		core.Attention:  1e-10, core.LinearCrossEntropy: 0x1p-23,
		core.PagedAttention: 1e-10,
		core.AttentionPre:   0x1p-23,
	}
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			golden.Run(t, reference.Kernel(op), core.Float64, limits[op])
		})
	}
}

// TestSingleAgreesWithPublishedCode allows eight roundings of float32.
func TestSingleAgreesWithPublishedCode(t *testing.T) {
	for _, op := range core.Ops() {
		t.Run(string(op), func(t *testing.T) {
			golden.Run(t, reference.Single(op), core.Float32, 0x1p-20)
		})
	}
}
