package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dx, drouting_weights and, unless the weights are frozen, their
// gradients. For each assignment, with v = down^T dy and s = s(g):
//
//	drouting_weights = h . v
//	dg    = p*v * u * (s + g*s*(1-s))
//	du    = p*v * g*s
//	ddown += p * dy h^T    dgate += dg x^T    dup += du x^T
//	dx    += gate^T dg + up^T du
func (kernel) Backward(_ context.Context, c *core.Call) error {
	order := byExpert(c)
	D, I, K := c.Facts.Dim, c.Facts.Intermediate, c.Facts.TopK
	x, dy, ids := c.Input("x").Float32s(), c.Input("dy").Float32s(), c.Input("expert_ids").Int32s()
	probs, saved := c.Input("routing_weights").Float32s(), c.Input("gate_up_out").Float32s()
	dx, dprobs := c.Output("dx").Float32s(), c.Output("drouting_weights").Float32s()
	for _, out := range c.Out { // an expert without token has gradients of zero
		clear(out.Float32s())
	}
	p := newPullback(I)
	for j, a := range order {
		e := int(ids[a])
		w := weights(c.Facts, c.Inputs, "", e)
		xt, dyt, dxt := x[a/K*D:][:D], dy[a/K*D:][:D], dx[a/K*D:][:D]
		dprobs[a] = p.swiglu(w, dyt, probs[a], saved[j*2*I:][:I], saved[j*2*I+I:][:I])
		for i := range I {
			axpy(dxt, p.dg[i], w.gate[i*D:][:D])
			axpy(dxt, p.du[i], w.up[i*D:][:D])
		}
		if c.Facts.Frozen {
			continue
		}
		dw := weights(c.Facts, c.Outputs, "d", e)
		for i := range I {
			axpy(dw.gate[i*D:][:D], p.dg[i], xt)
			axpy(dw.up[i*D:][:D], p.du[i], xt)
		}
		for d, up := range dyt {
			axpy(dw.down[d*I:][:I], probs[a]*up, p.h)
		}
	}
	return nil
}

// pullback has room for what one assignment needs, I elements each.
type pullback struct{ h, v, dg, du []float32 }

func newPullback(I int) *pullback {
	of := func() []float32 { return make([]float32, I) }
	return &pullback{of(), of(), of(), of()}
}

// swiglu fills h, v, dg and du, and returns h . v.
func (p *pullback) swiglu(w matrices, dy []float32, prob float32, g, u []float32) float32 {
	I := len(g)
	clear(p.v)
	for d, up := range dy {
		axpy(p.v, up, w.down[d*I:][:I])
	}
	for i := range I {
		s := sigmoid(g[i])
		p.h[i] = g[i] * s * u[i]
		p.dg[i] = prob * p.v[i] * u[i] * (s + g[i]*s*(1-s))
		p.du[i] = prob * p.v[i] * g[i] * s
	}
	return dot(p.h, p.v)
}

// axpy adds a*x to dst.
func axpy(dst []float32, a float32, x []float32) {
	dst = dst[:len(x)] // no index below needs a check
	for i, v := range x {
		dst[i] += a * v
	}
}
