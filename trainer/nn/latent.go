package nn

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Latent sizes multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024): queries, and keys and values together,
// go through a layer of few outputs each, and a norm of these. Of each head of queries and keys a part has no positions;
// the part of keys that has them is one for all heads. The cache holds keys and values of heads, not what they are made
// of.
type Latent struct {
	QRank, KVRank int // outputs of the layers before the norms; QRank 0 for queries by one layer
	Plain, Rotary int // elements of a head of q and k without positions, and with
	Value         int // elements of a head of v
}

// width is how many elements a head has where attention computes: as many as the longest of its kind, zeros behind.
func (l *Latent) width() int { return max(l.Plain+l.Rotary, l.Value) }

// latentEps is that of the norms, whatever the model's own is.
const latentEps = 1e-6

// latent has the layers of Latent.
type latent struct {
	*Latent
	heads         int
	q, qA, kvA    *Linear // q alone, or qA and then qB
	qB, kvB       *Linear
	qNorm, kvNorm *RMSNorm
}

func newLatent(b *Builder, path, sitePath string, cfg AttentionConfig) *latent {
	f := cfg.Latent
	l := &latent{Latent: f, heads: cfg.Heads}
	norm := func(name string, dim int) *RMSNorm {
		return newNorm(b, path+name, sitePath+name, normKind{dim, latentEps, cfg.NormOffset}, false)
	}
	if f.QRank == 0 {
		l.q = NewLinear(b, path+".q_proj", cfg.Hidden, cfg.Heads*(f.Plain+f.Rotary), false)
	} else {
		l.qA = NewLinear(b, path+".q_a_proj", cfg.Hidden, f.QRank, cfg.Bias)
		l.qNorm = norm(".q_a_layernorm", f.QRank)
		l.qB = NewLinear(b, path+".q_b_proj", f.QRank, cfg.Heads*(f.Plain+f.Rotary), false)
	}
	l.kvA = NewLinear(b, path+".kv_a_proj_with_mqa", cfg.Hidden, f.KVRank+f.Rotary, cfg.Bias)
	l.kvNorm = norm(".kv_a_layernorm", f.KVRank)
	l.kvB = NewLinear(b, path+".kv_b_proj", f.KVRank, cfg.Heads*(f.Plain+f.Value), false)
	return l
}

// project records q, k and v, [T, H, width] each, before rope: the elements with positions are the first of a head.
func (l *latent) project(c *Context, x *autograd.Value) (q, k, v *autograd.Value) {
	first := l.q
	if first == nil {
		first = l.qA
	}
	q, both := first.Forward(c, x), l.kvA.Forward(c, x)
	if l.q == nil {
		q = l.qB.Forward(c, l.qNorm.Forward(c, q))
	}
	parts := split(c.G, both, l.KVRank, l.Rotary)
	kv := l.kvB.Forward(c, l.kvNorm.Forward(c, parts[0]))
	n, head, w := l.Plain, l.Plain+l.Value, l.width()
	q = regroup(c.G, l.heads, w, []piece{{0, n, n + l.Rotary, 0, l.Rotary}, {0, 0, n + l.Rotary, l.Rotary, n}}, q)
	k = regroup(c.G, l.heads, w, []piece{{0, 0, 0, 0, l.Rotary}, {1, 0, head, l.Rotary, n}}, parts[1], kv)
	v = regroup(c.G, l.heads, w, []piece{{0, n, head, 0, l.Value}}, kv)
	return q, k, v
}

// values records the elements of y [T, H, width] that are values, [T, H*Value].
func (l *latent) values(c *Context, y *autograd.Value) *autograd.Value {
	t, w := y.Shape()[0], l.width()
	return regroup(c.G, l.heads, l.Value, []piece{{0, 0, w, 0, l.Value}}, y.Reshape(t, l.heads*w)).Reshape(t, l.heads*l.Value)
}

// piece is n elements of each head: those of input in from an element on, stride further for each head, which are in
// the output from another on. A stride of 0 is of what all heads share.
type piece struct{ in, from, stride, to, n int }

// regroup records y [T, heads, width] of pieces of inputs [T, ...], and zeros where there are none.
func regroup(g *autograd.Graph, heads, width int, pieces []piece, in ...*autograd.Value) *autograd.Value {
	t := in[0].Shape()[0]
	// each calls f with every piece of a token, in input i and in the output.
	each := func(r, i int, x core.Tensor, y []float32, f func(x, y []float32)) {
		row := x.Float32s()[r*x.Shape[1]:][:x.Shape[1]]
		for _, p := range pieces {
			for h := 0; p.in == i && h < heads; h++ {
				f(row[p.from+h*p.stride:][:p.n], y[(r*heads+h)*width+p.to:][:p.n])
			}
		}
	}
	back := &autograd.Backward{Run: func(_ context.Context, g *autograd.Grads) error {
		for i, d := range g.DIn {
			if d.IsZero() {
				continue
			}
			eachRow(t, d.Shape[1], func(r int) {
				clear(d.Float32s()[r*d.Shape[1]:][:d.Shape[1]])
				each(r, i, d, g.DOut[0].Float32s(), func(x, y []float32) {
					for j, v := range y {
						x[j] += v
					}
				})
			})
		}
		return nil
	}}
	for i := range in {
		back.Wrt = append(back.Wrt, i)
	}
	return g.Apply(autograd.Op{Name: "regroup", Outputs: []autograd.Spec{autograd.Float32(t, heads, width)}, Backward: back,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			y := out[0].Float32s()
			eachRow(t, heads*width, func(r int) {
				clear(y[r*heads*width:][:heads*width])
				for i, x := range in {
					each(r, i, x, y, func(x, y []float32) { copy(y, x) })
				}
			})
			return nil
		}}, in...)
}
