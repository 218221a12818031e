package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y. Sums are exact; every other operation is rounded to float32, in the order written.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	f, x, y := c.Facts, c.Input("x").Float32s(), c.Output("y").Float32s()
	weight, q := c.Input("weight").Int8s(), make([]int8, f.Dim)
	var bias []float32
	if f.Bias {
		bias = c.Input("bias").Float32s()
	}
	for t := range c.Tokens() {
		row, out := x[t*f.Dim:][:f.Dim], y[t*f.Out:][:f.Out]
		if f.Scaling == core.StaticScaling {
			quantise(q, row, c.Input("input_scale").Float32s()[0], c.Input("input_offset").Int32s()[0])
			scale, added := c.Input("deq_scale").Float32s(), c.Input("quant_bias").Int32s()
			for n := range out {
				out[n] = float32(sum(weight[n*f.Dim:][:f.Dim], q)+added[n]) * scale[n]
			}
			continue
		}
		s, scale := scaleOf(row), c.Input("weight_scale").Float32s()
		quantise(q, row, s, 0)
		for n := range out {
			out[n] = float32(float32(float32(sum(weight[n*f.Dim:][:f.Dim], q))*s) * scale[n])
			if bias != nil {
				out[n] += bias[n]
			}
		}
	}
	return nil
}

// scaleOf returns that of a token. NaN and infinity make it what they are.
func scaleOf(row []float32) float32 {
	var most float32
	for _, v := range row {
		most = max(most, float32(math.Abs(float64(v))))
	}
	if s := most / 127; s != 0 {
		return s
	}
	return 1
}

// quantise sets q = clamp(round(x / scale) + offset), halves to even; a quotient that is no number counts as 0.
func quantise(q []int8, x []float32, scale float32, offset int32) {
	for i, v := range x {
		r := math.RoundToEven(float64(v / scale))
		if r != r {
			r = 0
		}
		q[i] = int8(min(max(int32(min(max(r, -1000), 1000))+offset, -128), 127))
	}
}

func sum(a, b []int8) int32 {
	var s int32
	for i, v := range a {
		s += int32(v) * int32(b[i])
	}
	return s
}
