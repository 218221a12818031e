package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of swiglu, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	gate, up := in["gate"], in["up"]
	if f.Layout == core.Packed {
		for i := 0; i < len(in["gate_up"]); i += 2 * f.Intermediate {
			gate = append(gate, in["gate_up"][i:][:f.Intermediate]...)
			up = append(up, in["gate_up"][i+f.Intermediate:][:f.Intermediate]...)
		}
	}
	y := make([]float64, len(gate))
	for i, g := range gate {
		y[i] = g / (1 + math.Exp(-g)) * up[i]
	}
	return map[string][]float64{"y": y}
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	separate := core.Facts{DType: core.Float32, Intermediate: 7, Activation: "silu", Layout: core.Separate}
	packed := separate
	packed.Layout = core.Packed
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "separate", Op: core.SwiGLU, Facts: separate, Tokens: 5, Seed: 1},
		{Name: "packed", Op: core.SwiGLU, Facts: packed, Tokens: 5, Seed: 2},
	})
}
