package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of add_rms_norm, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	x, residual, weight := in["x"], in["residual"], in["weight"]
	y, h, rstd := make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x)/f.Dim)
	for t := range rstd {
		mean := 0.0
		for i := t * f.Dim; i < (t+1)*f.Dim; i++ {
			h[i] = x[i] + residual[i]
			mean += h[i] * h[i] / float64(f.Dim)
		}
		rstd[t] = 1 / math.Sqrt(mean+f.Eps)
		for i := range f.Dim {
			y[t*f.Dim+i] = h[t*f.Dim+i] * rstd[t] * (float64(f.Offset) + weight[i])
		}
	}
	return map[string][]float64{"y": y, "h": h, "rstd": rstd}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 7, Eps: 1e-5, Cast: core.CastBeforeWeight}
	around := f
	around.Offset, around.Cast = 1, core.CastAfterWeight
	frozen := f
	frozen.Frozen = true
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "weight around 1", Op: core.AddRMSNorm, Facts: f, Tokens: 5, Seed: 1},
		{Name: "weight around 0", Op: core.AddRMSNorm, Facts: around, Tokens: 5, Seed: 2},
		{Name: "frozen weight", Op: core.AddRMSNorm, Facts: frozen, Tokens: 5, Seed: 3},
	})
}
