package crosscheck_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/plugins/linked"
	"github.com/seed98097648/tune/trainer/crosscheck"
)

// BenchmarkCompare compares the ops of stories15M, four rows of 256 tokens, with kernels'
// own times beside.
func BenchmarkCompare(b *testing.B) {
	f32 := func(f core.Facts) core.Facts { f.DType = core.Float32; return f }
	norm := f32(core.Facts{WeightDType: core.Float32, Dim: 288, Eps: 1e-5, Cast: core.CastBeforeWeight})
	for _, u := range []use{
		{core.RMSNorm, norm, 1024}, {core.AddRMSNorm, norm, 1024},
		{core.SwiGLU, f32(core.Facts{Intermediate: 768, Activation: "silu", Layout: core.Separate}), 1024},
		{core.RoPE, f32(core.Facts{Pairing: core.Interleaved, RotaryDim: 48, HeadDim: 48, Heads: 6, KVHeads: 6}), 1024},
		{core.Attention, f32(core.Facts{HeadDim: 48, Heads: 6, KVHeads: 6}), 1024},
		{core.LinearCrossEntropy, f32(core.Facts{WeightDType: core.Float32, Dim: 288, Vocab: 32000}), 1024},
		{core.MoEExperts, f32(core.Facts{WeightDType: core.Float32, Dim: 288, Intermediate: 192, Activation: "silu",
			Layout: core.Packed, Experts: 8, TopK: 2, Routing: core.RoutingNormalized}), 1024},
	} {
		k := reference.Kernel(u.op)
		for _, own := range linked.Kernels() {
			if own.Info().Op == u.op {
				k = own
			}
		}
		for _, c := range calls(b, k, u, func(rng *rand.Rand) float32 { return float32(0.3 * rng.NormFloat64()) }) {
			b.Run(fmt.Sprintf("%s/%s/kernel", u.op, c.Pass), func(b *testing.B) {
				for b.Loop() {
					if err := core.Run(b.Context(), k, c); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/%s/compare", u.op, c.Pass), func(b *testing.B) {
				for b.Loop() {
					if err := crosscheck.Compare(c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
