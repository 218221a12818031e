package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dx and the gradients of what is trained. With v_t = scale * B^T dy_t,
//
//	dx_t    = weight^T dy_t + A^T v_t
//	dweight = sum over t of dy_t x_t^T;  dbias = sum over t of dy_t    unless frozen
//	dA      = sum over t of v_t x_t^T;   dB    = sum over t of dy_t u_t^T
func (kernel) Backward(_ context.Context, c *core.Call) error {
	D, N, R := c.Facts.Dim, c.Facts.Out, c.Facts.Rank
	dy, weight, dx := c.Input("dy").Float32s(), c.Input("weight").Float32s(), c.Output("dx").Float32s()
	for _, out := range c.Out { // what is added to below
		clear(out.Data)
	}
	var x, dweight, dbias []float32 // nil unless trained
	if !c.Facts.Frozen {
		x, dweight = c.Input("x").Float32s(), c.Output("dweight").Float32s()
	}
	if !c.Facts.Frozen && c.Facts.Bias {
		dbias = c.Output("dbias").Float32s()
	}
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
		if R > 0 {
			adapter(c, t, dy[t*N:][:N], dx[t*D:][:D])
		}
	}
	return nil
}

// adapter adds what a token has to the gradients of the adapter, and what that adds to dx.
func adapter(c *core.Call, t int, dy, dx []float32) {
	D, R := c.Facts.Dim, c.Facts.Rank
	a, b := c.Input("lora_a").Float32s(), c.Input("lora_b").Float32s()
	da, db := c.Output("dlora_a").Float32s(), c.Output("dlora_b").Float32s()
	x, u, v := c.Input("x").Float32s()[t*D:][:D], down(c, t), make([]float32, R)
	for n, d := range dy {
		axpy(v, d*float32(c.Facts.Scale), b[n*R:][:R])
		axpy(db[n*R:][:R], d, u)
	}
	for r, vr := range v {
		axpy(dx, vr, a[r*D:][:D])
		axpy(da[r*D:][:D], vr, x)
	}
}

// axpy adds a*x to dst.
func axpy(dst []float32, a float32, x []float32) {
	dst = dst[:len(x)] // no index below needs a check
	for i, v := range x {
		dst[i] += a * v
	}
}
