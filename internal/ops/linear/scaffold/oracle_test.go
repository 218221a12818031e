package kernel

import (
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of linear, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	tokens := len(in["x"]) / f.Dim
	y := make([]float64, tokens*f.Out)
	for t := range tokens {
		for n := range f.Out {
			sum := 0.0
			if f.Bias {
				sum = in["bias"][n]
			}
			for d := range f.Dim {
				sum += in["weight"][n*f.Dim+d] * in["x"][t*f.Dim+d]
			}
			for r := range f.Rank {
				for d := range f.Dim {
					sum += f.Scale * in["lora_b"][n*f.Rank+r] * in["lora_a"][r*f.Dim+d] * in["x"][t*f.Dim+d]
				}
			}
			y[t*f.Out+n] = sum
		}
	}
	return map[string][]float64{"y": y}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	use := func(name string, change func(f *core.Facts)) kerneltest.Case {
		f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 5, Out: 7}
		change(&f)
		return kerneltest.Case{Name: name, Op: core.Linear, Facts: f, Tokens: 6, Seed: 1}
	}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		use("trained", func(*core.Facts) {}),
		use("bias", func(f *core.Facts) { f.Bias = true }),
		use("frozen", func(f *core.Facts) { f.Frozen = true }),
		use("adapter", func(f *core.Facts) { f.Frozen, f.Rank, f.Scale = true, 3, 2 }),
	})
}
