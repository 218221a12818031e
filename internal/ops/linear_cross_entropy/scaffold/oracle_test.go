package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of linear_cross_entropy, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	losses := make([]float64, len(in["labels"]))
	for t, label := range in["labels"] {
		if label < 0 {
			continue
		}
		sum, chosen := 0.0, 0.0
		for v := range f.Vocab {
			z := 0.0
			for d := range f.Dim {
				z += in["weight"][v*f.Dim+d] * in["x"][t*f.Dim+d]
			}
			sum += math.Exp(z)
			if v == int(label) {
				chosen = z
			}
		}
		losses[t] = math.Log(sum) - chosen
	}
	return map[string][]float64{"losses": losses}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 5, Vocab: 11}
	frozen := f
	frozen.Frozen = true
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "trained weight", Op: core.LinearCrossEntropy, Facts: f, Tokens: 7, Seed: 1},
		{Name: "frozen weight", Op: core.LinearCrossEntropy, Facts: frozen, Tokens: 7, Seed: 2},
	})
}
