package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Forward writes q, k and v.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	D, x := c.Facts.Dim, c.Input("x").Float32s()
	for _, part := range parts {
		weight, y := c.Input(part+"_weight").Float32s(), c.Output(part).Float32s()
		N := len(weight) / D
		var bias []float32
		if c.Facts.Bias {
			bias = c.Input(part + "_bias").Float32s()
		}
		for t := range c.Tokens() {
			for n := range N {
				sum := dot(weight[n*D:][:D], x[t*D:][:D])
				if bias != nil {
					sum += float64(bias[n])
				}
				y[t*N+n] = float32(sum)
			}
		}
	}
	return nil
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}
