package kernel

import (
	"math"

	"github.com/seed98097648/tune/core"
)

// project writes one of the three layers of n.
func project(c *core.Call, part string, y, n []float32) {
	f, weight := c.Facts, c.Input(part+"_weight")
	var bias, scale []float32
	if f.Bias {
		bias = c.Input(part + "_bias").Float32s()
	}
	if f.WeightDType == core.Int8 && f.Scaling != core.StaticScaling {
		scale = c.Input(part + "_weight_scale").Float32s()
	}
	switch f.Scaling {
	case core.StaticScaling:
		q := quantise(n, c.Input("input_scale").Float32s()[0], c.Input("input_offset").Int32s()[0])
		deq, added := c.Input(part+"_deq_scale").Float32s(), c.Input(part+"_quant_bias").Int32s()
		for i := range y {
			y[i] = float32(dot(weight.Int8s()[i*f.Dim:][:f.Dim], q)+added[i]) * deq[i]
		}
		return
	case core.DynamicScaling:
		s := scaleOf(n)
		q := quantise(n, s, 0)
		for i := range y {
			y[i] = float32(float32(float32(dot(weight.Int8s()[i*f.Dim:][:f.Dim], q))*s) * scale[i])
		}
	default:
		row := make([]float32, f.Dim)
		for i := range y {
			weight.Load(row, i*f.Dim)
			sum := 0.0
			for j, w := range row {
				sum += float64(w) * float64(n[j])
			}
			if scale != nil {
				sum *= float64(scale[i])
			}
			y[i] = float32(sum)
		}
	}
	for i, b := range bias {
		y[i] += b
	}
}

// scaleOf returns that of a token. NaN and infinity make it what they are.
func scaleOf(n []float32) float32 {
	var most float32
	for _, v := range n {
		most = max(most, float32(math.Abs(float64(v))))
	}
	if s := most / 127; s != 0 {
		return s
	}
	return 1
}

// quantise returns clamp(round(n / scale) + offset), halves to even; a quotient that is no number counts as 0.
func quantise(n []float32, scale float32, offset int32) []int8 {
	q := make([]int8, len(n))
	for i, v := range n {
		r := math.RoundToEven(float64(v / scale))
		if r != r {
			r = 0
		}
		q[i] = int8(min(max(int32(min(max(r, -1000), 1000))+offset, -128), 127))
	}
	return q
}

func dot(a, b []int8) int32 {
	var s int32
	for i, v := range a {
		s += int32(v) * int32(b[i])
	}
	return s
}
