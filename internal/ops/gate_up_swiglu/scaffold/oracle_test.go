package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of gate_up_swiglu, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	gate, up := in["gate"], in["up"]
	if f.Layout == core.Packed {
		gate, up = in["gate_up"][:f.Intermediate*f.Dim], in["gate_up"][f.Intermediate*f.Dim:]
	}
	var y, saved []float64
	for x := range slices.Chunk(in["x"], f.Dim) {
		both := make([]float64, 2*f.Intermediate)
		for i := range f.Intermediate {
			g, u := 0.0, 0.0
			for d, v := range x {
				g += gate[i*f.Dim+d] * v
				u += up[i*f.Dim+d] * v
			}
			both[i], both[f.Intermediate+i] = g, u
			y = append(y, g/(1+math.Exp(-g))*u)
		}
		saved = append(saved, both...)
	}
	return map[string][]float64{"y": y, "gate_up_out": saved}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	use := func(name string, change func(f *core.Facts)) kerneltest.Case {
		f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 5, Intermediate: 7, Activation: "silu",
			Layout: core.Separate}
		change(&f)
		return kerneltest.Case{Name: name, Op: core.GateUpSwiGLU, Facts: f, Tokens: 6, Seed: 1}
	}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		use("trained", func(*core.Facts) {}),
		use("computed again", func(f *core.Facts) { f.Recompute = true }),
		use("packed", func(f *core.Facts) { f.Layout = core.Packed }),
		use("frozen", func(f *core.Facts) { f.Frozen = true }),
	})
}
