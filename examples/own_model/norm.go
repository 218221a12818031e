package main

import (
	"context"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
)

// norm is a kernel for rms_norm in plain Go: y = x * rstd * (offset + weight).
type norm struct{}

func (norm) Info() core.Info {
	return core.Info{Name: "own_norm", Op: core.RMSNorm, Version: "1.0.0", Summary: "rms_norm on one core",
		DTypes: []core.DType{core.Float32}, Backward: true}
}

func (norm) Supports(f core.Facts) error {
	if f.DType != core.Float32 || f.WeightDType != core.Float32 || f.Frozen {
		return fmt.Errorf("%w: it takes float32, and weights that are trained", core.ErrNotSupported)
	}
	return nil
}

func (norm) Forward(_ context.Context, c *core.Call) error {
	d, offset := c.Facts.Dim, float32(c.Facts.Offset)
	x, weight := c.Input("x").Float32s(), c.Input("weight").Float32s()
	y, rstd := c.Output("y").Float32s(), c.Output("rstd").Float32s()
	for t := range rstd {
		row, sum := x[t*d:(t+1)*d], 0.0
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		rstd[t] = float32(1 / math.Sqrt(sum/float64(d)+c.Facts.Eps))
		for i, v := range row {
			y[t*d+i] = v * rstd[t] * (offset + weight[i])
		}
	}
	return nil
}

func (norm) Backward(_ context.Context, c *core.Call) error {
	d, offset := c.Facts.Dim, float32(c.Facts.Offset)
	dy, x, weight := c.Input("dy").Float32s(), c.Input("x").Float32s(), c.Input("weight").Float32s()
	rstd, dx, dweight := c.Input("rstd").Float32s(), c.Output("dx").Float32s(), c.Output("dweight").Float32s()
	sums := make([]float64, d) // of dweight, over the tokens
	for t, r := range rstd {
		row, drow, mean := x[t*d:(t+1)*d], dy[t*d:(t+1)*d], 0.0
		for i, v := range row {
			n := float64(v * r)
			sums[i] += float64(drow[i]) * n
			mean += float64(drow[i]*(offset+weight[i])) * n / float64(d)
		}
		for i, v := range row {
			dx[t*d+i] = r * (drow[i]*(offset+weight[i]) - v*r*float32(mean))
		}
	}
	for i, s := range sums {
		dweight[i] = float32(s)
	}
	return nil
}
