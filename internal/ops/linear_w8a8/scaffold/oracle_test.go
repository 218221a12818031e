package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of linear_w8a8, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	var y []float64
	for x := in["x"]; len(x) > 0; x = x[f.Dim:] {
		scale, offset := 0.0, 0.0
		if f.Scaling == core.StaticScaling {
			scale, offset = in["input_scale"][0], in["input_offset"][0]
		} else {
			for _, v := range x[:f.Dim] {
				scale = max(scale, math.Abs(v))
			}
			scale /= 127
		}
		for n := range f.Out {
			sum := 0.0
			for d, v := range x[:f.Dim] {
				q := math.Min(math.Max(math.RoundToEven(v/scale)+offset, -128), 127)
				sum += in["weight"][n*f.Dim+d] * q
			}
			switch {
			case f.Scaling == core.StaticScaling:
				sum = (sum + in["quant_bias"][n]) * in["deq_scale"][n]
			case f.Bias:
				sum = sum*scale*in["weight_scale"][n] + in["bias"][n]
			default:
				sum *= scale * in["weight_scale"][n]
			}
			y = append(y, sum)
		}
	}
	return map[string][]float64{"y": y}
}

// TestAgreesWithTheFormula compares outputs with the oracle's.
func TestAgreesWithTheFormula(t *testing.T) {
	use := func(name string, change func(f *core.Facts)) kerneltest.Case {
		f := core.Facts{DType: core.Float32, Dim: 5, Out: 7, Scaling: core.DynamicScaling}
		change(&f)
		return kerneltest.Case{Name: name, Op: core.LinearW8A8, Facts: f, Tokens: 6, Seed: 1}
	}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		use("dynamic", func(*core.Facts) {}),
		use("bias", func(f *core.Facts) { f.Bias = true }),
		use("static", func(f *core.Facts) { f.Scaling = core.StaticScaling }),
	})
}
