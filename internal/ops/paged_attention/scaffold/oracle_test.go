package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of paged_attention: what a token sees is brought together first, and then it is attention.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	y, t := make([]float64, len(in["q"])), 0
	places := len(in["block_tables"]) / len(in["seq_lens"])
	for b, n := range in["query_lens"] {
		for i := 0.0; i < n; i++ {
			position := in["seq_lens"][b] - n + i
			for h := range f.Heads {
				out, total := y[(t*f.Heads+h)*f.HeadDim:][:f.HeadDim], 0.0
				for j := 0; float64(j) <= position; j++ {
					if f.Window > 0 && float64(j) <= position-float64(f.Window) {
						continue
					}
					block := int(in["block_tables"][b*places+j/f.BlockSize])
					at := ((block*f.BlockSize+j%f.BlockSize)*f.KVHeads + h*f.KVHeads/f.Heads) * f.HeadDim
					score := 0.0
					for c := range f.HeadDim {
						score += in["q"][(t*f.Heads+h)*f.HeadDim+c] * in["k_cache"][at+c]
					}
					p := math.Exp(f.Scale * score)
					total += p
					for c := range out {
						out[c] += p * in["v_cache"][at+c]
					}
				}
				for c := range out {
					out[c] /= max(total, math.SmallestNonzeroFloat64)
				}
			}
			t++
		}
	}
	return map[string][]float64{"y": y}
}

// TestAgreesWithTheFormula compares outputs with the oracle's.
func TestAgreesWithTheFormula(t *testing.T) {
	use := func(name string, change func(f *core.Facts)) kerneltest.Case {
		f := core.Facts{DType: core.Float32, HeadDim: 4, Heads: 4, KVHeads: 2, BlockSize: 3, Scale: 0.5}
		change(&f)
		return kerneltest.Case{Name: name, Op: core.PagedAttention, Facts: f, Tokens: 9, Positions: 5, Seed: 1}
	}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		use("all before", func(*core.Facts) {}),
		use("window", func(f *core.Facts) { f.Window = 4 }),
		use("blocks of one", func(f *core.Facts) { f.BlockSize = 1 }),
	})
}
