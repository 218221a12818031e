package kernel

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of attention_pre, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	out := map[string][]float64{}
	for t, position := range in["positions"] {
		h := append([]float64(nil), in["x"][t*f.Dim:][:f.Dim]...)
		if f.Residual {
			for i := range h {
				h[i] += in["residual"][t*f.Dim+i]
			}
			out["h"] = append(out["h"], h...)
		}
		n := normed(f, in, "", h)
		for _, part := range []string{"q", "k", "v"} {
			var y []float64
			for row := 0; row < len(in[part+"_weight"])/f.Dim; row++ {
				y = append(y, layer(f, in, part, row, n))
			}
			for ; len(y) > 0; y = y[f.HeadDim:] {
				head := y[:f.HeadDim]
				if part != "v" && f.QKNorm {
					head = normed(f, in, part+"_", head)
				}
				if part != "v" {
					rotate(f, in, head, int(position))
				}
				out[part] = append(out[part], head...)
			}
		}
	}
	return out
}

func normed(f core.Facts, in map[string][]float64, norm string, x []float64) (y []float64) {
	mean := 0.0
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	for i, v := range x {
		n := v / math.Sqrt(mean+f.Eps) * (float64(f.Offset) + in[norm+"norm_weight"][i])
		if f.NormBias {
			n += in[norm+"norm_bias"][i]
		}
		y = append(y, n)
	}
	return y
}

func layer(f core.Facts, in map[string][]float64, part string, row int, n []float64) float64 {
	scale, offset := 0.0, 0.0
	if f.Scaling == core.StaticScaling {
		scale, offset = in["input_scale"][0], in["input_offset"][0]
	} else {
		for _, v := range n {
			scale = max(scale, math.Abs(v)/127)
		}
	}
	sum := 0.0
	for d, v := range n {
		if f.Scaling != "" {
			v = math.Min(math.Max(math.RoundToEven(v/scale)+offset, -128), 127)
		}
		sum += in[part+"_weight"][row*f.Dim+d] * v
	}
	switch {
	case f.Scaling == core.StaticScaling:
		return (sum + in[part+"_quant_bias"][row]) * in[part+"_deq_scale"][row]
	case f.Scaling == core.DynamicScaling:
		sum *= scale
	}
	if f.WeightDType == core.Int8 {
		sum *= in[part+"_weight_scale"][row]
	}
	if f.Bias {
		sum += in[part+"_bias"][row]
	}
	return sum
}

func rotate(f core.Facts, in map[string][]float64, y []float64, position int) {
	half := f.RotaryDim / 2
	for i := range half {
		c, s := in["cos"][position*half+i], in["sin"][position*half+i]
		a, b := i, i+half
		if f.Pairing == core.Interleaved {
			a, b = 2*i, 2*i+1
		}
		y[a], y[b] = y[a]*c-y[b]*s, y[b]*c+y[a]*s
	}
}

// use is one of the op, changed.
func use(name string, change func(f *core.Facts)) kerneltest.Case {
	f := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 5, Eps: 1e-6, Cast: core.CastBeforeWeight,
		Residual: true, Pairing: core.Half, RotaryDim: 2, HeadDim: 4, Heads: 2, KVHeads: 1}
	change(&f)
	return kerneltest.Case{Name: name, Op: core.AttentionPre, Facts: f, Tokens: 6, Positions: 7, Seed: 1}
}

// TestAgreesWithTheFormula compares outputs with the oracle's.
func TestAgreesWithTheFormula(t *testing.T) {
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		use("float32", func(*core.Facts) {}),
		use("no residual", func(f *core.Facts) { f.Residual = false }),
		use("norms of heads", func(f *core.Facts) { f.QKNorm = true }),
		use("biases", func(f *core.Facts) { f.QKNorm, f.NormBias, f.Bias = true, true, true }),
		use("interleaved", func(f *core.Facts) { f.Pairing, f.Offset = core.Interleaved, 1 }),
		use("weights in int8", func(f *core.Facts) { f.WeightDType = core.Int8 }),
		use("static", func(f *core.Facts) { f.WeightDType, f.Scaling = core.Int8, core.StaticScaling }),
		use("dynamic", func(f *core.Facts) { f.WeightDType, f.Scaling, f.Bias = core.Int8, core.DynamicScaling, true }),
	})
}
