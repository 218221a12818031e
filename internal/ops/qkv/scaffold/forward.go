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

// dot has two sums, as an addition waits for the one before it in the same sum.
func dot(a, b []float32) float64 {
	even, odd := 0.0, 0.0
	b = b[:len(a)] // no index below needs a check
	for i := 1; i < len(a); i += 2 {
		even += float64(a[i-1]) * float64(b[i-1])
		odd += float64(a[i]) * float64(b[i])
	}
	if n := len(a); n%2 > 0 {
		even += float64(a[n-1]) * float64(b[n-1])
	}
	return even + odd
}
