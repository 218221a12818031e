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
	Bias, OutBias                   bool       // of q, k and v; of o
	Packed                          bool       // q, k and v are one matrix, in that order
	QKNorm                          bool       // an RMSNorm over each head of q and of k
	QKNormAll                       bool       // one over all heads of q together, and of k
	Eps                             float64    // of those norms
	NormOffset                      int        // see DecoderConfig
	Cap                             float64    // scores are Cap*tanh(score/Cap); 0 for none
	Sinks                           bool       // each head has a score for nothing, a parameter, beside those of keys
	Scale                           float64    // of the scores; 0 means 1/sqrt(HeadDim)
	Latent                          *Latent    // q, k and v are made as it says; HeadDim is then set by it
	Rope                            *RopeTable // nil for no positions
	Pairing                         core.Pairing
	Window                          int // tokens that a query sees, itself among them; 0 for all before it
}

// Attention is causal self-attention with grouped queries and rotary positions. Its own
// site offers attention; its rope and its norms have theirs, and q, k and v one together.
type Attention struct {
	cfg          AttentionConfig
	in           []*Linear // q, k and v, or one layer that gives all three
	qkv          *site     // offers qkv; nil if they are one layer
	o            *Linear
	qNorm, kNorm *RMSNorm // nil without QKNorm and QKNormAll
	rope         *Rope    // nil without Rope
	sinks        *Param   // [H], nil without Sinks
	latent       *latent  // instead of in; nil without Latent
	*site
	paged, store *site // offer paged_attention and reshape_and_cache over a cache; see Body.Paged
}

// NewAttention adds the parameters below path and the sites below sitePath.
func NewAttention(b *Builder, path, sitePath string, cfg AttentionConfig) *Attention {
	if cfg.Latent != nil {
		cfg.HeadDim = cfg.Latent.width()
	}
	a := &Attention{cfg: cfg}
	linear := func(name string, heads int) {
		a.in = append(a.in, NewLinear(b, path+name, cfg.Hidden, heads*cfg.HeadDim, cfg.Bias))
	}
	out := cfg.Heads * cfg.HeadDim
	switch {
	case cfg.Latent != nil:
		a.latent, out = newLatent(b, path, sitePath, cfg), cfg.Heads*cfg.Latent.Value
	case cfg.Packed:
		linear(".qkv_proj", cfg.Heads+2*cfg.KVHeads)
	default:
		facts := core.Facts{Dim: cfg.Hidden, HeadDim: cfg.HeadDim, Heads: cfg.Heads, KVHeads: cfg.KVHeads, Bias: cfg.Bias}
		a.qkv = b.group(sitePath+".qkv", core.QKV, facts, func() []*Linear {
			linear(".q_proj", cfg.Heads)
			linear(".k_proj", cfg.KVHeads)
			linear(".v_proj", cfg.KVHeads)
			return a.in
		})
	}
	a.o = NewLinear(b, path+".o_proj", out, cfg.Hidden, cfg.OutBias)
	norm := func(name string, dim int) *RMSNorm {
		return newNorm(b, path+name, sitePath+name, normKind{dim, cfg.Eps, cfg.NormOffset}, false)
	}
	switch {
	case cfg.QKNorm:
		a.qNorm, a.kNorm = norm(".q_norm", cfg.HeadDim), norm(".k_norm", cfg.HeadDim)
		a.qNorm.perToken, a.kNorm.perToken = cfg.Heads, cfg.KVHeads
	case cfg.QKNormAll:
		a.qNorm, a.kNorm = norm(".q_norm", cfg.Heads*cfg.HeadDim), norm(".k_norm", cfg.KVHeads*cfg.HeadDim)
	}
	if cfg.Rope != nil {
		a.rope = NewRope(b, sitePath+".rope", cfg.Rope, cfg.Pairing, cfg.Heads, cfg.KVHeads, cfg.HeadDim)
	}
	a.site = b.site(sitePath+".attention", core.Attention,
		core.Facts{HeadDim: cfg.HeadDim, Heads: cfg.Heads, KVHeads: cfg.KVHeads})
	if cfg.Sinks {
		a.sinks = b.Param(path+".sinks", cfg.Heads)
		a.sinks.AroundZero = true
	}
	a.pagedSites(b, sitePath)
	if reason := cfg.unlikeKernels(); reason != "" {
		b.stayPlain(a.site, reason)
	}
	return a
}

// Forward records the block: x [T, D], y [T, D].
func (a *Attention) Forward(c *Context, x *autograd.Value) *autograd.Value {
	q, k, v := a.project(c, x)
	return a.rest(c, q, k, v)
}

// project records what comes before attention: x [T, D], q [T, H, C], k and v [T, KV, C]. Of a run whose gradients do not
// stay, for want of memory, all from there to the end of plain attention is computed again: it keeps the probabilities of all
// pairs of tokens otherwise, and takes 2 to 4% of a step.
func (a *Attention) project(c *Context, x *autograd.Value) (q, k, v *autograd.Value) {
	t, f := c.T(), a.cfg
	if a.latent != nil {
		c.costly()
		q, k, v = a.latent.project(c, x)
		q, k = a.rope.Forward(c, q, k)
		return q, k, v
	}
	in := forwardAll(c, a.qkv, a.in, x)
	c.costly()
	if f.Packed {
		in = split(c.G, in[0], f.Heads*f.HeadDim, f.KVHeads*f.HeadDim, f.KVHeads*f.HeadDim)
	}
	if c.Update != nil && !a.site.patched() {
		c.cheap()
	}
	if f.QKNormAll {
		in[0], in[1] = a.qNorm.Forward(c, in[0]), a.kNorm.Forward(c, in[1])
	}
	q, k, v = in[0].Reshape(t, f.Heads, f.HeadDim), in[1].Reshape(t, f.KVHeads, f.HeadDim),
		in[2].Reshape(t, f.KVHeads, f.HeadDim)
	if f.QKNorm {
		q, k = a.qNorm.Forward(c, q), a.kNorm.Forward(c, k)
	}
	if a.rope != nil {
		q, k = a.rope.Forward(c, q, k)
	}
	return q, k, v
}

// rest records attention and the layer after it.
func (a *Attention) rest(c *Context, q, k, v *autograd.Value) *autograd.Value {
	defer c.costly()
	y := a.attend(c, q, k, v)
	if a.latent != nil {
		return a.o.Forward(c, a.latent.values(c, y))
	}
	return a.o.Forward(c, y.Reshape(c.T(), a.cfg.Heads*a.cfg.HeadDim))
}

// attend records what the site offers: q [T, H, C], k and v [T, KV, C], y [T, H, C].
func (a *Attention) attend(c *Context, q, k, v *autograd.Value) *autograd.Value {
	if a.cfg.Scale != 0 { // q takes it, so that what attends has one scale
		q = scaled(c, q, a.cfg.Scale*math.Sqrt(float64(a.cfg.HeadDim)))
	}
	if c.cache != nil {
		return c.cache.attend(c, a, q, k, v)
	}
	keys := c.keysWithin(a.cfg.Window)
	if a.kernel != nil {
		var again *autograd.Again
		if c.again && !c.whole { // q, k and v are computed again, and not what the kernel makes of all pairs of tokens
			again = &autograd.Again{}
		}
		return a.fusedAgain(c, c.T(), again, q, k, v, keys)[0]
	}
	in := []*autograd.Value{q, k, v, keys}
	if a.sinks != nil {
		in = append(in, c.Leaf(a.sinks))
	}
	return c.G.ApplyAll(attentionOp(c.B, c.S, a.cfg), in...)[0]
}

// attentionOp is softmax(q k^T / sqrt(C)) v, where a query sees a range of the keys of its
// own row, and with sinks a further score of its head, which has no value. It saves the
// probabilities [B, H, S, S] for the backward, and those of the sinks [B, H, S].
func attentionOp(b, s int, f AttentionConfig) autograd.Op {
	at := shapeOf(b, s, f)
	probs := autograd.Float32(b, f.Heads, s, s)
	op := autograd.Op{Name: "attention", Outputs: []autograd.Spec{autograd.Float32(b*s, f.Heads, f.HeadDim), probs},
		Work: at.work(2, f.Window)}
	back := &autograd.Backward{Inputs: []int{0, 1, 2, 3}, Outputs: []int{1}, Wrt: []int{0, 1, 2}, All: true,
		Scratch: []autograd.Spec{probs}, Work: at.work(4, f.Window)}
	if f.Sinks {
		sunk := autograd.Float32(b, f.Heads, s)
		op.Outputs, back.Outputs = append(op.Outputs, sunk), append(back.Outputs, 2)
		back.Wrt, back.Scratch = append(back.Wrt, 4), append(back.Scratch, sunk)
	}
	if f.Cap > 0 {
		back.Scratch = append(back.Scratch, probs)
		back.Work = at.work(5, f.Window)
	}
	op.Forward = func(_ context.Context, in, out []core.Tensor) error {
		at.forward(in, out)
		return nil
	}
	back.Run = func(_ context.Context, g *autograd.Grads) error {
		at.backward(g)
		return nil
	}
	op.Backward = back
	return op
}

// shapeOf is the attention of batches of b rows of s.
func shapeOf(b, s int, f AttentionConfig) attentionShape {
	return attentionShape{b: b, s: s, heads: f.Heads, kv: f.KVHeads, c: f.HeadDim, cap: f.Cap, sinks: f.Sinks}
}

type attentionShape struct {
	b, s, heads, kv, c int
	cap                float64 // see AttentionConfig, as the next
	sinks              bool
}

// work is that of n products for each head over pairs of a query and a key: of the s*s
// pairs, only those have to be computed whose key is not later than the query, and within
// its window, if there is one.
func (a attentionShape) work(n, window int) core.Work {
	if window == 0 || window > a.s {
		window = a.s
	}
	pairs := window*(window+1)/2 + (a.s-window)*window
	return products(n, a.b*a.heads, pairs, a.c)
}

// head returns head h of x [B*S, heads, C] as an [S, C] matrix; h counts over the batch.
func (a attentionShape) head(x []float32, h, heads int) simd.Matrix {
	row, col := h/heads*a.s, h%heads
	return simd.Matrix{Data: x[(row*heads+col)*a.c:], Stride: heads * a.c}
}

// scale is what scores are multiplied by.
func (a attentionShape) scale() float32 { return float32(1 / math.Sqrt(float64(a.c))) }
