package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dx, losses once more and, unless the weight is frozen, dweight. The
// gradient of -log softmax is the softmax, less 1 at the label:
//
//	dz      = dloss * (p - [v = label])
//	dx      = weight^T dz
//	dweight = sum over t of dz x^T
func (kernel) Backward(_ context.Context, c *core.Call) error {
	D := c.Facts.Dim
	x, weight, labels := c.Input("x").Float32s(), c.Input("weight").Float32s(), c.Input("labels").Int32s()
	dlosses, dx := c.Input("dlosses").Float32s(), c.Output("dx").Float32s()
	clear(dx) // of tokens without a label
	var dweight []float32
	if !c.Facts.Frozen {
		dweight = c.Output("dweight").Float32s()
		clear(dweight)
	}
	eachToken(c, func(t int, p []float64) {
		p[labels[t]]--
		for v, pv := range p {
			dz := dlosses[t] * float32(pv)
			axpy(dx[t*D:][:D], dz, weight[v*D:][:D])
			if dweight != nil {
				axpy(dweight[v*D:][:D], dz, x[t*D:][:D])
			}
		}
	})
	return nil
}

// axpy adds a*x to dst.
func axpy(dst []float32, a float32, x []float32) {
	dst = dst[:len(x)] // no index below needs a check
	for i, v := range x {
		dst[i] += a * v
	}
}
