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
		weight, dy := c.Input(part+"_weight").Float32s(), c.Input("d"+part).Float32s()
		var x, dweight, dbias []float32 // nil unless trained
		if !c.Facts.Frozen {
			x, dweight = c.Input("x").Float32s(), c.Output("d"+part+"_weight").Float32s()
		}
		if !c.Facts.Frozen && c.Facts.Bias {
			dbias = c.Output("d" + part + "_bias").Float32s()
		}
		N := len(weight) / D
		for t := range c.Tokens() {
			for n, d := range dy[t*N:][:N] {
				axpy(dx[t*D:][:D], d, weight[n*D:][:D])
				if dweight != nil {
					axpy(dweight[n*D:][:D], d, x[t*D:][:D])
				}
				if dbias != nil {
					dbias[n] += d
				}
			}
		}
	}
	return nil
}

// axpy adds a*x to dst.
func axpy(dst []float32, a float32, x []float32) {
	dst = dst[:len(x)] // no index below needs a check
	for i, v := range x {
		dst[i] += a * v
	}
}
