package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dx and the gradients of what is trained. For n in q, k, v:
//
//	dx_t     = sum over n of n_weight^T dn_t
//	dn_weight = sum over t of dn_t x_t^T;  dn_bias = sum over t of dn_t    unless frozen
func (kernel) Backward(_ context.Context, c *core.Call) error {
	D, dx := c.Facts.Dim, c.Output("dx").Float32s()
	for _, out := range c.Out { // what is added to below
		clear(out.Data)
	}
	for _, part := range parts {
		weight, dy := c.Input(part+"_weight"), c.Input("d"+part).Float32s()
		N := weight.Shape[0]
		for t := range c.Tokens() {
			for n, d := range dy[t*N:][:N] {
				axpy(dx[t*D:][:D], d, weight.Float32s()[n*D:][:D])
				if !c.Facts.Frozen {
					axpy(c.Output("d" + part + "_weight").Float32s()[n*D:][:D], d, c.Input("x").Float32s()[t*D:][:D])
				}
				if !c.Facts.Frozen && c.Facts.Bias {
					c.Output("d" + part + "_bias").Float32s()[n] += d
				}
			}
		}
	}
	return nil
}

// axpy adds a*x to dst.
func axpy(dst []float32, a float32, x []float32) {
	for i, v := range x {
		dst[i] += a * v
	}
}
