package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of qkv, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	tokens, out := len(in["x"])/f.Dim, map[string][]float64{}
	for part, heads := range map[string]int{"q": f.Heads, "k": f.KVHeads, "v": f.KVHeads} {
		rows := heads * f.HeadDim
		y := make([]float64, tokens*rows)
		for t := range tokens {
			for n := range rows {
				sum := 0.0
				if f.Bias {
					sum = in[part+"_bias"][n]
				}
				for d := range f.Dim {
					sum += in[part+"_weight"][n*f.Dim+d] * in["x"][t*f.Dim+d]
				}
				y[t*rows+n] = sum
			}
		}
		out[part] = y
	}
	return out
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	use := func(name string, change func(f *core.Facts)) kerneltest.Case {
		f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 5, HeadDim: 2, Heads: 3, KVHeads: 1}
		change(&f)
		return kerneltest.Case{Name: name, Op: core.QKV, Facts: f, Tokens: 6, Seed: 1}
	}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		use("trained", func(*core.Facts) {}),
		use("bias", func(f *core.Facts) { f.Bias = true }),
		use("frozen", func(f *core.Facts) { f.Frozen = true }),
	})
}
