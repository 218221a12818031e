package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y. Sums are exact; every other operation is rounded to float32, in the order written.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	f, x, y := c.Facts, c.Input("x").Float32s(), c.Output("y").Float32s()
	gate, up := halves(c)
	down := rows{c.Input("down").Int8s(), c.Input("down_scale").Float32s()}
	q, p, h, u := make([]int8, f.Dim), make([]int8, f.Intermediate), make([]float32, f.Intermediate),
		make([]float32, f.Intermediate)
	for t := range c.Tokens() {
		s := quantise(q, x[t*f.Dim:][:f.Dim])
		gate.multiply(h, q, s)
		up.multiply(u, q, s)
		for i, g := range h {
			h[i] = g * sigmoid(g) * u[i]
		}
		r := quantise(p, h)
		down.multiply(y[t*f.Dim:][:f.Dim], p, r)
	}
	return nil
}

// sigmoid never overflows to NaN: exp of a large number is infinite, and 1/(1+Inf) is 0.
func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// rows is a weight and what its rows are multiplied by.
type rows struct {
	weight []int8
	scale  []float32
}

// halves finds gate and up in either layout.
func halves(c *core.Call) (gate, up rows) {
	if c.Facts.Layout == core.Separate {
		return rows{c.Input("gate").Int8s(), c.Input("gate_scale").Float32s()},
			rows{c.Input("up").Int8s(), c.Input("up_scale").Float32s()}
	}
	both, scale := c.Input("gate_up").Int8s(), c.Input("gate_up_scale").Float32s()
	return rows{both[:len(both)/2], scale[:len(scale)/2]}, rows{both[len(both)/2:], scale[len(scale)/2:]}
}

// multiply sets y = (weight q * s) * scale.
func (r rows) multiply(y []float32, q []int8, s float32) {
	for n := range y {
		var sum int32
		for i, w := range r.weight[n*len(q):][:len(q)] {
			sum += int32(w) * int32(q[i])
		}
		y[n] = float32(float32(sum)*s) * r.scale[n]
	}
}

// quantise sets q to the multiples of s that are nearest to x, halves to even. NaN and infinity make s what they
// are; a quotient that is no number counts as 0.
func quantise(q []int8, x []float32) (s float32) {
	for _, v := range x {
		s = max(s, float32(math.Abs(float64(v))))
	}
	if s /= 127; s == 0 {
		s = 1
	}
	for i, v := range x {
		r := math.RoundToEven(float64(v / s))
		if r != r {
			r = 0
		}
		q[i] = int8(min(max(r, -128), 127))
	}
	return s
}
