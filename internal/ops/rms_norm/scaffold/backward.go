package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dx and, unless the weight is frozen, dweight. With n = x*rstd and
// g = dy*(offset + weight), y depends on x_i directly and through rstd:
//
//	dx      = rstd * (g - n*mean(g*n))
//	dweight = sum over t of dy*n
func (kernel) Backward(_ context.Context, c *core.Call) error {
	D, offset := c.Facts.Dim, float32(c.Facts.Offset)
	dy, x := c.Input("dy").Float32s(), c.Input("x").Float32s()
	weight, rstd := c.Input("weight").Float32s(), c.Input("rstd").Float32s()
	dx := c.Output("dx").Float32s()
	sums := make([]float64, D) // of dweight
	for t, r := range rstd {
		row, up, out := x[t*D:][:D], dy[t*D:][:D], dx[t*D:][:D]
		mean := 0.0
		for i, v := range row {
			n := v * r
			mean += float64(up[i]*(offset+weight[i])*n) / float64(D)
			sums[i] += float64(up[i] * n)
		}
		for i, v := range row {
			out[i] = r * (up[i]*(offset+weight[i]) - v*r*float32(mean))
		}
	}
	if c.Facts.Frozen {
		return nil
	}
	dweight := c.Output("dweight").Float32s()
	for i, v := range sums {
		dweight[i] = float32(v)
	}
	return nil
}
