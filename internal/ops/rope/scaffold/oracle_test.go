package kernel

import (
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of rope, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	rotated := func(x []float64) []float64 {
		y := slices.Clone(x)
		heads := len(x) / len(in["positions"]) / f.HeadDim
		for h := range len(x) / f.HeadDim {
			for i := range f.RotaryDim / 2 {
				angle := int(in["positions"][h/heads])*f.RotaryDim/2 + i
				c, s := in["cos"][angle], in["sin"][angle]
				a, b := h*f.HeadDim+i, h*f.HeadDim+i+f.RotaryDim/2
				if f.Pairing == core.Interleaved {
					a, b = h*f.HeadDim+2*i, h*f.HeadDim+2*i+1
				}
				y[a] = x[a]*c - x[b]*s
				y[b] = x[b]*c + x[a]*s
			}
		}
		return y
	}
	return map[string][]float64{"q_out": rotated(in["q"]), "k_out": rotated(in["k"])}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	half := core.Facts{DType: core.Float32, Pairing: core.Half, RotaryDim: 4, HeadDim: 7, Heads: 4, KVHeads: 2}
	interleaved := half
	interleaved.Pairing = core.Interleaved
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "half", Op: core.RoPE, Facts: half, Tokens: 5, Positions: 9, Seed: 1},
		{Name: "interleaved", Op: core.RoPE, Facts: interleaved, Tokens: 5, Positions: 9, Seed: 2},
	})
}
