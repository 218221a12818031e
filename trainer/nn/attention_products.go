package nn

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// forward: p = softmax(q k^T), y = p v.
func (a attentionShape) forward(in, out []core.Tensor) {
	q, k, v, y, p := in[0].Float32s(), in[1].Float32s(), in[2].Float32s(), out[0].Float32s(), out[1].Float32s()
	var sinks, sunk []float32
	if a.sinks {
		sinks, sunk = in[4].Float32s(), out[2].Float32s()
	}
	x := a.bandsOf(in[3].Int32s())
	defer usedBands.Put(x)
	x.each(false, func(room *bandRoom, t band) {
		x.pack(&room[0], a.head(k, x.keyHead(t), a.kv), t, true)
		x.pack(&room[1], a.head(v, x.keyHead(t), a.kv), t, false)
		x.eachHead(t, func(h int, _ bool) {
			p := a.ofHead(p, h)
			x.across(p, a.head(q, h, a.heads), t, &room[0])
			for i := t.from; i < t.to; i++ {
				seen := x.keysOf(t.row, i)
				lost := a.weigh(p[i*a.s:][:a.s], seen.lo, seen.hi, h%a.heads, sinks)
				if sunk != nil {
					sunk[h*a.s+i] = lost
				}
			}
			x.along(a.head(y, h, a.heads), p, t, &room[1], false, false)
		})
	})
}

// backward: with P the probabilities, dV = P^T dY, dP = dY V^T,
// dS = P * (dP - rowsum(dP * P)) / sqrt(C), dQ = dS K, dK = dS^T Q; the key and value
// gradients sum over the query heads that share them. With a cap, dS is times its slope.
func (a attentionShape) backward(g *autograd.Grads) {
	x := a.bandsOf(g.In[3].Int32s())
	defer usedBands.Put(x)
	ds := g.Scratch[0].Float32s()
	a.queryGradients(g, x, ds)
	if a.sinks && !g.DIn[4].IsZero() {
		a.sinkGradients(g.DIn[4].Float32s(), g.Out[2].Float32s(), g.Scratch[1].Float32s())
	}
	q, p, dy := g.In[0].Float32s(), g.Out[1].Float32s(), g.DOut[0].Float32s()
	dk, dv := g.DIn[1].Float32s(), g.DIn[2].Float32s()
	x.each(true, func(room *bandRoom, t band) {
		x.eachHead(t, func(h int, first bool) {
			x.pack(&room[0], a.head(q, h, a.heads), t, false)
			x.pack(&room[1], a.head(dy, h, a.heads), t, false)
			x.along(a.head(dk, x.keyHead(t), a.kv), a.ofHead(ds, h), t, &room[0], true, !first)
			x.along(a.head(dv, x.keyHead(t), a.kv), a.ofHead(p, h), t, &room[1], true, !first)
		})
	})
}

// queryGradients writes dS and dQ.
func (a attentionShape) queryGradients(g *autograd.Grads, x *bands, ds []float32) {
	q, k, v, p := g.In[0].Float32s(), g.In[1].Float32s(), g.In[2].Float32s(), g.Out[1].Float32s()
	dy, dq := g.DOut[0].Float32s(), g.DIn[0].Float32s()
	var capped, dots []float32
	if a.cap > 0 {
		capped = g.Scratch[len(g.Scratch)-1].Float32s()
	}
	if a.sinks {
		dots = g.Scratch[1].Float32s()
	}
	x.each(false, func(room *bandRoom, t band) {
		x.pack(&room[0], a.head(v, x.keyHead(t), a.kv), t, true)
		x.pack(&room[1], a.head(k, x.keyHead(t), a.kv), t, false)
		if capped != nil {
			x.pack(&room[2], a.head(k, x.keyHead(t), a.kv), t, true)
		}
		x.eachHead(t, func(h int, _ bool) {
			p, ds := a.ofHead(p, h), a.ofHead(ds, h)
			x.across(ds, a.head(dy, h, a.heads), t, &room[0])
			if capped != nil {
				x.across(a.ofHead(capped, h), a.head(q, h, a.heads), t, &room[2])
			}
			for i := t.from; i < t.to; i++ {
				dot := a.slopes(ds[i*a.s:][:a.s], p[i*a.s:][:a.s], x.keysOf(t.row, i))
				if dots != nil {
					dots[h*a.s+i] = dot
				}
				if seen := x.keysOf(t.row, i); capped != nil {
					a.cappedSlopes(ds[i*a.s:][seen.lo:seen.hi], a.ofHead(capped, h)[i*a.s:][seen.lo:seen.hi])
				}
			}
			x.along(a.head(dq, h, a.heads), ds, t, &room[1], false, false)
		})
	})
}

// slopes turns the gradients dp of the probabilities p of a query into those of its scores, and returns the sum of their
// products.
func (a attentionShape) slopes(dp, p []float32, seen interval) (dot float32) {
	clear(dp[:seen.lo])
	clear(dp[seen.hi:])
	row, p := dp[seen.lo:seen.hi], p[seen.lo:seen.hi]
	dot = simd.Dot(p, row)
	simd.SoftmaxGrad(row, p, row, dot, a.scale())
	return dot
}

// ofHead returns what is [S, S] of query head h, counted over the batch.
func (a attentionShape) ofHead(p []float32, h int) []float32 { return p[h*a.s*a.s:][:a.s*a.s] }
