package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dx and, unless they are frozen, the gradients of the weights:
//
//	dg_t = dy_t*u_t*(s + g_t*s*(1-s));  du_t = dy_t*g_t*s
//	dx_t = gate^T dg_t + up^T du_t
//	dgate = sum over t of dg_t x_t^T;  dup = sum over t of du_t x_t^T
func (kernel) Backward(_ context.Context, c *core.Call) error {
	D, I := c.Facts.Dim, c.Facts.Intermediate
	gate, up := halves(c.Facts, c.Input, "")
	dy, dx := c.Input("dy").Float32s(), c.Output("dx").Float32s()
	var x, dgate, dup []float32 // nil unless trained
	if !c.Facts.Frozen {
		x = c.Input("x").Float32s()
		dgate, dup = halves(c.Facts, c.Output, "d")
	}
	for _, out := range c.Out { // what is added to below
		clear(out.Data)
	}
	for t := range c.Tokens() {
		var both []float32
		if c.Facts.Recompute {
			both = products(c, t)
		} else {
			both = c.Input("gate_up_out").Float32s()[t*2*I:][:2*I]
		}
		for i, d := range dy[t*I:][:I] {
			g, u, s := both[i], both[I+i], sigmoid(both[i])
			dg, du := d*u*(s+g*s*(1-s)), d*g*s
			axpy(dx[t*D:][:D], dg, gate[i*D:][:D])
			axpy(dx[t*D:][:D], du, up[i*D:][:D])
			if x != nil {
				axpy(dgate[i*D:][:D], dg, x[t*D:][:D])
				axpy(dup[i*D:][:D], du, x[t*D:][:D])
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
