package moe

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Backward computes, for each assignment of token t to expert e with routing weight p,
//
//	v = down[e]^T dy_t                      dp = h . v
//	dg = p*v*u*(s + g*s*(1-s))              du = p*v*g*s
//	dx_t += gate[e]^T dg + up[e]^T du
//
// and over all assignments of an expert
//
//	dgate[e] = sum of dg x_t^T    dup[e] = sum of du x_t^T    ddown[e] = sum of dy_t (p h)^T
//
// An expert without token has zero gradients.
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	if err := k.prepare(ctx, c); err != nil {
		return err
	}
	D := c.Facts.Dim
	weights, gradients := experts(c.Facts, c.Inputs, ""), experts(c.Facts, c.Outputs, "d")
	for e, g := range gradients {
		if k.routes.start[e] == k.routes.start[e+1] {
			clear(g.gate.Float32s())
			clear(g.up.Float32s())
			clear(g.down.Float32s())
		}
	}
	sum := grow(&k.sum, c.Tokens()*D)
	clear(sum)
	for _, b := range k.routes.blocks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		pieces := k.routes.pieces(b)
		k.backwardHidden(c, weights, b, pieces)
		k.backwardWeights(c, gradients, b, pieces)
		out := k.backwardInput(c, weights, b, pieces)
		k.routes.addRows(sum, out, b, c.Facts.TopK, D, nil)
	}
	storeRows(c.Output("dx"), sum)
	return nil
}

// backwardHidden computes dp and, in scratch memory, p*h, dg and du of a block.
func (k *Kernel) backwardHidden(c *core.Call, weights []expert, b block, pieces []piece) {
	D, I, n := c.Facts.Dim, c.Facts.Intermediate, b.hi-b.lo
	gu, h, dh := grow(&k.gateUp, n*2*I), grow(&k.hidden, n*I), grow(&k.dhidden, n*I)
	var products []simd.Product
	for _, p := range pieces {
		products = append(products, simd.Product{M: p.hi - p.lo, N: I, K: D,
			A: k.routes.gather(c.Input("dy"), p.lo, c.Facts.TopK, D), B: matrix(weights[p.expert].down),
			C: dh[(p.lo-b.lo)*I:], StrideC: I})
	}
	simd.Multiply(products...)

	saved, p, dp := c.Input("gate_up_out"), c.Input("routing_weights").Float32s(), c.Output("drouting_weights").Float32s()
	simd.Parallel(n, rowGrain, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row, h, v := gu[r*2*I:][:2*I], h[r*I:][:I], dh[r*I:][:I]
			saved.Load(row, (b.lo+r)*2*I)
			a := k.routes.order[b.lo+r]
			dp[a] = backwardRow(row[:I], row[I:], h, v, p[a])
		}
	})
}

// backwardRow turns g and u into their gradients, sets h to p*h and v to p*v, and returns
// h . v.
func backwardRow(g, u, h, v []float32, p float32) (dp float32) {
	simd.SwiGLU(h, g, u)
	dp = simd.Dot(h, v)
	simd.Scale(v, v, p)
	simd.SwiGLUGrad(g, u, v, g, u)
	simd.Scale(h, h, p)
	return dp
}

// backwardWeights adds a block's share to the gradients of the experts in it.
func (k *Kernel) backwardWeights(c *core.Call, gradients []expert, b block, pieces []piece) {
	D, I := c.Facts.Dim, c.Facts.Intermediate
	var products []simd.Product
	for _, p := range pieces {
		d, rows, at := gradients[p.expert], p.hi-p.lo, p.lo-b.lo
		x := k.routes.gather(c.Input("x"), p.lo, c.Facts.TopK, D)
		dy := k.routes.gather(c.Input("dy"), p.lo, c.Facts.TopK, D)
		h := simd.Matrix{Data: k.hidden[at*I:], Stride: I}
		dg := simd.Matrix{Data: k.gateUp[at*2*I:], Stride: 2 * I}
		du := simd.Matrix{Data: k.gateUp[at*2*I+I:], Stride: 2 * I}
		add := !p.first
		products = append(products,
			simd.Product{M: I, N: D, K: rows, A: dg, TransA: true, B: x, C: d.gate.Float32s(), StrideC: D, Accumulate: add},
			simd.Product{M: I, N: D, K: rows, A: du, TransA: true, B: x, C: d.up.Float32s(), StrideC: D, Accumulate: add},
			simd.Product{M: D, N: I, K: rows, A: dy, TransA: true, B: h, C: d.down.Float32s(), StrideC: I, Accumulate: add})
	}
	simd.Multiply(products...)
}

// backwardInput returns gate[e]^T dg + up[e]^T du for each row of a block.
func (k *Kernel) backwardInput(c *core.Call, weights []expert, b block, pieces []piece) []float32 {
	D, I := c.Facts.Dim, c.Facts.Intermediate
	out := grow(&k.output, (b.hi-b.lo)*D)
	var gates, ups []simd.Product // one after the other, as they add to the same rows
	for _, p := range pieces {
		w, rows, at := weights[p.expert], p.hi-p.lo, p.lo-b.lo
		dg := simd.Matrix{Data: k.gateUp[at*2*I:], Stride: 2 * I}
		du := simd.Matrix{Data: k.gateUp[at*2*I+I:], Stride: 2 * I}
		gates = append(gates, simd.Product{M: rows, N: D, K: I, A: dg, B: matrix(w.gate), C: out[at*D:], StrideC: D})
		ups = append(ups, simd.Product{M: rows, N: D, K: I, A: du, B: matrix(w.up), C: out[at*D:], StrideC: D, Accumulate: true})
	}
	simd.Multiply(gates...)
	simd.Multiply(ups...)
	return out
}
