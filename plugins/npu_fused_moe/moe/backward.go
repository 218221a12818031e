package moe

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
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
// An expert without token has zero gradients; frozen ones have none.
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	k.routes.sort(c.Input("expert_ids").Int32s(), c.Facts.Experts)
	D := c.Facts.Dim
	weights := experts(c.Facts, c.Inputs, "")
	var gradients []expert
	if !c.Facts.Frozen {
		gradients = experts(c.Facts, c.Outputs, "d")
	}
	for e, g := range gradients {
		if k.routes.start[e] == k.routes.start[e+1] {
			for _, part := range g.in {
				clear(part.Float32s())
			}
			clear(g.down.Float32s())
		}
	}
	sum := vector.Wide(&k.sum, c.Output("dx"))
	for _, b := range k.routes.blocks() {
		if err := ctx.Err(); err != nil {
			return err
		}
		pieces := k.routes.pieces(b)
		k.backwardHidden(c, weights, b, pieces)
		if !c.Facts.Frozen {
			k.backwardWeights(c, gradients, b, pieces)
		}
		out := k.backwardInput(c, weights, b, pieces)
		k.routes.addRows(sum, out, b, c.Facts.TopK, D, nil)
	}
	vector.Narrow(c.Output("dx"), sum)
	return nil
}

// backwardHidden computes dp and, in scratch memory, p*h, dg and du of a block.
func (k *Kernel) backwardHidden(c *core.Call, weights []expert, b block, pieces []piece) {
	D, I, n := c.Facts.Dim, c.Facts.Intermediate, b.hi-b.lo
	dgu, h, dh, dy := vector.Grow(&k.gateUp, n*2*I), vector.Grow(&k.hidden, n*I), vector.Grow(&k.dhidden, n*I), vector.Grow(&k.dy, n*D)
	k.routes.gather(dy, c.Input("dy"), b, c.Facts.TopK, D)
	var products []vector.Product
	for _, p := range pieces {
		at := p.lo - b.lo
		products = append(products, vector.Product{M: p.hi - p.lo, N: I, K: D,
			A: vector.Matrix{Data: dy[at*D:], Stride: D}, B: vector.MatrixOf(weights[p.expert].down), C: dh[at*I:], StrideC: I})
	}
	k.Multiply.Run(products...)

	saved, p, dp := c.Input("gate_up_out"), c.Input("routing_weights").Float32s(), c.Output("drouting_weights").Float32s()
	vector.Parallel(n, rowGrain, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			d, h, v := dgu[r*2*I:][:2*I], h[r*I:][:I], dh[r*I:][:I]
			gu, at := d, (b.lo+r)*2*I
			if saved.DType == core.Float32 {
				gu = saved.Float32s()[at:][:2*I]
			} else {
				vector.Load(d, saved, at)
			}
			a := k.routes.order[b.lo+r]
			dp[a] = backwardRow(d, gu[:I], gu[I:], h, v, p[a])
		}
	})
}

// backwardRow sets d, which may be g and u, to the gradients of g and u, h to p*h and v
// to p*v, and returns h . v.
func backwardRow(d, g, u, h, v []float32, p float32) (dp float32) {
	I := len(h)
	vector.Stream(false).SwiGLU(h, g, u)
	dp = vector.Dot(h, v)
	vector.Scale(v, v, p)
	vector.Stream(false).SwiGLUGrad(d[:I], d[I:], v, g, u)
	vector.Scale(h, h, p)
	return dp
}

// backwardWeights adds a block's share to the gradients of the experts in it.
func (k *Kernel) backwardWeights(c *core.Call, gradients []expert, b block, pieces []piece) {
	D, I, n := c.Facts.Dim, c.Facts.Intermediate, b.hi-b.lo
	x := vector.Grow(&k.x, n*D)
	k.routes.gather(x, c.Input("x"), b, c.Facts.TopK, D)
	var products []vector.Product
	for _, p := range pieces {
		d, rows, at := gradients[p.expert], p.hi-p.lo, p.lo-b.lo
		for i, part := range d.in {
			width := part.Shape[0]
			products = append(products, vector.Product{M: width, N: D, K: rows, A: vector.Matrix{Data: k.gateUp[at*2*I+i*width:], Stride: 2 * I}, TransA: true,
				B: vector.Matrix{Data: x[at*D:], Stride: D}, C: part.Float32s(), StrideC: D, Accumulate: !p.first})
		}
		products = append(products, vector.Product{M: D, N: I, K: rows, A: vector.Matrix{Data: k.dy[at*D:], Stride: D}, TransA: true,
			B: vector.Matrix{Data: k.hidden[at*I:], Stride: I}, C: d.down.Float32s(), StrideC: I, Accumulate: !p.first})
	}
	k.Multiply.Run(products...)
}

// backwardInput returns gate[e]^T dg + up[e]^T du for each row of a block.
func (k *Kernel) backwardInput(c *core.Call, weights []expert, b block, pieces []piece) []float32 {
	D, I := c.Facts.Dim, c.Facts.Intermediate
	out := vector.Grow(&k.x, (b.hi-b.lo)*D) // the tokens' rows are read by then
	for i := range weights[0].in {          // one after the other, as they add to the same rows
		var products []vector.Product
		for _, p := range pieces {
			part, at := weights[p.expert].in[i], p.lo-b.lo
			width := part.Shape[0]
			products = append(products, vector.Product{M: p.hi - p.lo, N: D, K: width,
				A: vector.Matrix{Data: k.gateUp[at*2*I+i*width:], Stride: 2 * I}, B: vector.MatrixOf(part),
				C: out[at*D:], StrideC: D, Accumulate: i > 0})
		}
		k.Multiply.Run(products...)
	}
	return out
}
