package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y, h and rstd.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	D, offset := c.Facts.Dim, float32(c.Facts.Offset)
	x, residual, weight := c.Input("x").Float32s(), c.Input("residual").Float32s(), c.Input("weight").Float32s()
	y, h, rstd := c.Output("y").Float32s(), c.Output("h").Float32s(), c.Output("rstd").Float32s()
	for i, v := range x {
		h[i] = v + residual[i]
	}
	for t := range c.Tokens() {
		row, out := h[t*D:][:D], y[t*D:][:D]
		r := reciprocalRMS(row, c.Facts.Eps)
		for i, v := range row {
			out[i] = v * r * (offset + weight[i])
		}
		rstd[t] = r
	}
	return nil
}

// reciprocalRMS returns 1/sqrt(mean(row^2) + eps). The sum of squares is in float64, so
// that neither large rows overflow nor long ones lose digits.
func reciprocalRMS(row []float32, eps float64) float32 {
	sum := 0.0
	for _, v := range row {
		sum += float64(v) * float64(v)
	}
	return float32(1 / math.Sqrt(sum/float64(len(row))+eps))
}
