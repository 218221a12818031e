package nn

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// AttentionConfig sizes a self-attention block.
type AttentionConfig struct {
	Hidden, Heads, KVHeads, HeadDim int
	Bias, OutBias                   bool    // of q, k and v; of o
	QKNorm                          bool    // an RMSNorm over each head of q and of k
	Eps                             float64 // of those norms
	Rope                            *RopeTable
	Pairing                         core.Pairing
}

// Attention is causal self-attention with grouped queries and rotary positions.
type Attention struct {
	cfg          AttentionConfig
	q, k, v, o   *Linear
	qNorm, kNorm *RMSNorm // nil without QKNorm
	rope         *Rope
}

// NewAttention adds the parameters below path and the sites below sitePath.
func NewAttention(b *Builder, path, sitePath string, cfg AttentionConfig) *Attention {
	a := &Attention{cfg: cfg,
		q: NewLinear(b, path+".q_proj", cfg.Hidden, cfg.Heads*cfg.HeadDim, cfg.Bias),
		k: NewLinear(b, path+".k_proj", cfg.Hidden, cfg.KVHeads*cfg.HeadDim, cfg.Bias),
		v: NewLinear(b, path+".v_proj", cfg.Hidden, cfg.KVHeads*cfg.HeadDim, cfg.Bias),
		o: NewLinear(b, path+".o_proj", cfg.Heads*cfg.HeadDim, cfg.Hidden, cfg.OutBias),
	}
	if cfg.QKNorm {
		a.qNorm = NewRMSNorm(b, path+".q_norm", sitePath+".q_norm", cfg.HeadDim, cfg.Eps)
		a.kNorm = NewRMSNorm(b, path+".k_norm", sitePath+".k_norm", cfg.HeadDim, cfg.Eps)
		a.qNorm.perToken, a.kNorm.perToken = cfg.Heads, cfg.KVHeads
	}
	a.rope = NewRope(b, sitePath+".rope", cfg.Rope, cfg.Pairing, cfg.Heads, cfg.KVHeads, cfg.HeadDim)
	return a
}

// Forward records the block: x [T, D], y [T, D].
func (a *Attention) Forward(c *Context, x *autograd.Value) *autograd.Value {
	t, f := c.T(), a.cfg
	q := a.q.Forward(c, x).Reshape(t, f.Heads, f.HeadDim)
	k := a.k.Forward(c, x).Reshape(t, f.KVHeads, f.HeadDim)
	v := a.v.Forward(c, x).Reshape(t, f.KVHeads, f.HeadDim)
	if f.QKNorm {
		q, k = a.qNorm.Forward(c, q), a.kNorm.Forward(c, k)
	}
	q, k = a.rope.Forward(c, q, k)
	y := c.G.ApplyAll(attentionOp(c.B, c.S, f), q, k, v, c.segments)[0]
	return a.o.Forward(c, y.Reshape(t, f.Heads*f.HeadDim))
}

// attentionOp is softmax(q k^T / sqrt(C)) v, where a query sees the keys of its own
// document up to itself; a padding query sees every real key before it, as it does in
// Hugging Face's masks. It saves the probabilities [B, H, S, S] for the backward.
func attentionOp(b, s int, f AttentionConfig) autograd.Op {
	at := attentionShape{b: b, s: s, heads: f.Heads, kv: f.KVHeads, c: f.HeadDim}
	probs := autograd.Float32(b, f.Heads, s, s)
	return autograd.Op{Name: "attention", Outputs: []autograd.Spec{autograd.Float32(b*s, f.Heads, f.HeadDim), probs},
		Work: causal(2, b*f.Heads, s, f.HeadDim),
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			q, k, v, p := in[0].Float32s(), in[1].Float32s(), in[2].Float32s(), out[1].Float32s()
			simd.Multiply(at.products(func(h, g int) simd.Product { // p = q k^T
				return simd.Product{M: s, N: s, K: at.c, A: at.head(q, h, at.heads), B: at.head(k, g, at.kv), TransB: true, C: p[h*s*s:], StrideC: s}
			})...)
			at.softmax(p, in[3].Int32s())
			simd.Multiply(at.products(func(h, g int) simd.Product { // y = p v
				y := at.head(out[0].Float32s(), h, at.heads)
				return simd.Product{M: s, N: at.c, K: s, A: at.scores(p, h), B: at.head(v, g, at.kv), C: y.Data, StrideC: y.Stride}
			})...)
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1, 2}, Outputs: []int{1}, Wrt: []int{0, 1, 2}, All: true, Scratch: []autograd.Spec{probs},
			Work: causal(4, b*f.Heads, s, f.HeadDim),
			Run: func(_ context.Context, g *autograd.Grads) error {
				at.backward(g)
				return nil
			}},
	}
}

// causal is the work of n products for each head over pairs of a query and a key: of the
// s*s pairs, only those whose key is not later than the query have to be computed.
func causal(n, heads, s, c int) core.Work { return products(n, heads, s*(s+1)/2, c) }

type attentionShape struct{ b, s, heads, kv, c int }

// head returns head h of x [B*S, heads, C] as an [S, C] matrix; h counts over the batch.
func (a attentionShape) head(x []float32, h, heads int) simd.Matrix {
	row, col := h/heads*a.s, h%heads
	return simd.Matrix{Data: x[(row*heads+col)*a.c:], Stride: heads * a.c}
}

func (a attentionShape) scores(p []float32, h int) simd.Matrix {
	return simd.Matrix{Data: p[h*a.s*a.s:], Stride: a.s}
}

// products makes one product for each query head h of the batch and its key head g.
func (a attentionShape) products(make func(h, g int) simd.Product) []simd.Product {
	var out []simd.Product
	for h := range a.b * a.heads {
		out = append(out, make(h, h/a.heads*a.kv+h%a.heads/(a.heads/a.kv)))
	}
	return out
}

// softmax turns scores into probabilities in place.
func (a attentionShape) softmax(p []float32, segments []int32) {
	s, scale := a.s, a.scale()
	eachRow(a.b*a.heads*s, s, func(r int) {
		b, i := r/s/a.heads, r%s
		seg, row := segments[b*s:(b+1)*s], p[r*s:r*s+i+1]
		clear(p[r*s+i+1 : (r+1)*s])
		seen := false
		for j := range row {
			if visible(seg, i, j) {
				seen = true
			} else {
				row[j] = float32(math.Inf(-1))
			}
		}
		if !seen {
			clear(row)
			return
		}
		sum := simd.ExpSum(row, row, scale, scale*simd.Max(row))
		simd.Scale(row, row, float32(1/sum))
	})
}

// scale is what scores are multiplied by.
func (a attentionShape) scale() float32 { return float32(1 / math.Sqrt(float64(a.c))) }

// visible reports whether query i may see key j <= i.
func visible(seg []int32, i, j int) bool {
	return seg[j] != 0 && (seg[i] == seg[j] || seg[i] == 0)
}

// backward: with P the probabilities, dV = P^T dY, dP = dY V^T,
// dS = P * (dP - rowsum(dP * P)) / sqrt(C), dQ = dS K, dK = dS^T Q; the key and value
// gradients sum over the query heads that share them.
func (a attentionShape) backward(g *autograd.Grads) {
	q, k, v, p := g.In[0].Float32s(), g.In[1].Float32s(), g.In[2].Float32s(), g.Out[1].Float32s()
	dy, ds := g.DOut[0].Float32s(), g.Scratch[0].Float32s()
	dq, dk, dv := g.DIn[0].Float32s(), g.DIn[1].Float32s(), g.DIn[2].Float32s()
	s := a.s
	simd.Multiply(a.products(func(h, g int) simd.Product {
		return simd.Product{M: s, N: s, K: a.c, A: a.head(dy, h, a.heads), B: a.head(v, g, a.kv), TransB: true, C: ds[h*s*s:], StrideC: s}
	})...)
	eachRow(a.b*a.heads*s, s, func(r int) {
		n := r%s + 1 // later keys have no part in it
		p, row := p[r*s:r*s+n], ds[r*s:r*s+n]
		simd.SoftmaxGrad(row, p, row, simd.Dot(p, row), a.scale())
		clear(ds[r*s+n : (r+1)*s])
	})
	simd.Multiply(a.products(func(h, g int) simd.Product {
		d := a.head(dq, h, a.heads)
		return simd.Product{M: s, N: a.c, K: s, A: a.scores(ds, h), B: a.head(k, g, a.kv), C: d.Data, StrideC: d.Stride}
	})...)
	a.sumGroups(dk, ds, q)
	a.sumGroups(dv, p, dy)
}

// sumGroups writes dst[g] = sum over the query heads h of key head g of left[h]^T right[h].
func (a attentionShape) sumGroups(dst, left, right []float32) {
	group := a.heads / a.kv
	for member := range group {
		var ps []simd.Product
		for g := range a.b * a.kv {
			h := g/a.kv*a.heads + g%a.kv*group + member
			d := a.head(dst, g, a.kv)
			ps = append(ps, simd.Product{M: a.s, N: a.c, K: a.s, A: a.scores(left, h), TransA: true, B: a.head(right, h, a.heads),
				C: d.Data, StrideC: d.Stride, Accumulate: member > 0})
		}
		simd.Multiply(ps...)
	}
}
