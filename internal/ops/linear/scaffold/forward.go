package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Forward writes y.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	D, N, R := c.Facts.Dim, c.Facts.Out, c.Facts.Rank
	x, weight, y := c.Input("x").Float32s(), c.Input("weight").Float32s(), c.Output("y").Float32s()
	var bias, b []float32
	if c.Facts.Bias {
		bias = c.Input("bias").Float32s()
	}
	if R > 0 {
		b = c.Input("lora_b").Float32s()
	}
	for t := range c.Tokens() {
		u := down(c, t)
		for n := range N {
			sum := dot(weight[n*D:][:D], x[t*D:][:D])
			if bias != nil {
				sum += float64(bias[n])
			}
			if b != nil {
				sum += dot(b[n*R:][:R], u)
			}
			y[t*N+n] = float32(sum)
		}
	}
	return nil
}

// down returns u of a token, nothing without an adapter.
func down(c *core.Call, t int) []float32 {
	D := c.Facts.Dim
	u := make([]float32, c.Facts.Rank)
	for r := range u {
		a := c.Input("lora_a").Float32s()[r*D:][:D]
		u[r] = float32(c.Facts.Scale * dot(a, c.Input("x").Float32s()[t*D:][:D]))
	}
	return u
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
