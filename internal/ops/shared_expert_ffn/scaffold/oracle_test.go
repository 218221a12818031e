package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of shared_expert_ffn, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	both, scale := append(in["gate"], in["up"]...), append(in["gate_scale"], in["up_scale"]...)
	if f.Layout == core.Packed {
		both, scale = in["gate_up"], in["gate_up_scale"]
	}
	var y []float64
	for x := in["x"]; len(x) > 0; x = x[f.Dim:] {
		gateUp := multiplied(both, scale, x[:f.Dim])
		h := make([]float64, f.Intermediate)
		for i := range h {
			g := gateUp[i]
			h[i] = g / (1 + math.Exp(-g)) * gateUp[f.Intermediate+i]
		}
		y = append(y, multiplied(in["down"], in["down_scale"], h)...)
	}
	return map[string][]float64{"y": y}
}

// multiplied is a weight times x, after that became int8.
func multiplied(weight, scale, x []float64) []float64 {
	s := 0.0
	for _, v := range x {
		s = max(s, math.Abs(v)/127)
	}
	y := make([]float64, len(scale))
	for n := range y {
		for i, v := range x {
			y[n] += weight[n*len(x)+i] * math.RoundToEven(v/s) * s * scale[n]
		}
	}
	return y
}

// TestAgreesWithTheFormula compares outputs with the oracle's.
func TestAgreesWithTheFormula(t *testing.T) {
	separate := core.Facts{DType: core.Float32, Dim: 5, Intermediate: 7, Activation: "silu", Layout: core.Separate}
	packed := separate
	packed.Layout = core.Packed
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "separate", Op: core.SharedExpertFFN, Facts: separate, Tokens: 6, Seed: 1},
		{Name: "packed", Op: core.SharedExpertFFN, Facts: packed, Tokens: 6, Seed: 2},
	})
}
