package nn

import (
	"context"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Linear is y = x * weight^T + bias: x [T, in], weight [out, in], y [T, out]; and what an
// adapter adds to that. Its site offers linear.
type Linear struct {
	Weight, Bias *Param // Bias may be nil
	adapter      *adapter
	int8         *int8Layer // nil: activations are multiplied as they are
	*site
}

// NewLinear adds the parameters path.weight and, if asked, path.bias, the site, and the target
// of an adapter.
func NewLinear(b *Builder, path string, in, out int, bias bool) *Linear {
	l := &Linear{Weight: b.Param(path+".weight", out, in)}
	if bias {
		l.Bias = b.Param(path+".bias", out)
	}
	l.offer(b, sitePath(path))
	l.target(b, path)
	b.layers = append(b.layers, l)
	return l
}

// target lets an adapter be put on the layer.
func (l *Linear) target(b *Builder, path string) {
	b.targets = append(b.targets, Target{Name: path, Modules: []string{path}, In: l.facts.Dim, Out: l.facts.Out,
		at: &l.adapter, linear: l.site, layer: l})
}

// sitePath is where in a model a module lies, given what its parameters' names begin with.
func sitePath(path string) string { return strings.TrimPrefix(path, "model.") }

// halfFrozen is why a site has no kernel: the fact Frozen is of all weights of the op.
const halfFrozen = "some of its weights are trained and others not"

// offer adds the site.
func (l *Linear) offer(b *Builder, path string) {
	w := l.Weight.Tensor
	if b.scaling != nil {
		if scaling := b.scaling(l.Path()); scaling != "" {
			l.offerInt8(b, path, scaling)
			return
		}
	}
	l.site = b.site(path, core.Linear, core.Facts{WeightDType: w.DType, Dim: w.Shape[1], Out: w.Shape[0],
		Bias: l.Bias != nil, Frozen: l.Weight.Frozen})
	if l.Bias != nil && l.Bias.Frozen != l.Weight.Frozen {
		b.stayPlain(l.site, halfFrozen)
	}
}

// Forward records the layer.
func (l *Linear) Forward(c *Context, x *autograd.Value) *autograd.Value {
	return c.variants(l.site, &l.adapter, x, l.forward(c, x), nil)
}

// forward records the layer without what variants add.
func (l *Linear) forward(c *Context, x *autograd.Value) *autograd.Value {
	if l.int8 != nil {
		return l.multiplyInt8(c, x)
	}
	return l.adapter.decomposed(c, l, l.multiply(c, x))
}

// multiply records the product, the bias, and what an adapter adds.
func (l *Linear) multiply(c *Context, x *autograd.Value) *autograd.Value {
	t, plain := x.Shape()[0], !l.site.patched()
	var products core.DType
	if l.site != nil {
		products = l.facts.Products
	}
	adapter := l.adapter.rounding(products)
	in := []*autograd.Value{x, c.Leaf(l.Weight)}
	if l.Weight.Scale != nil && !plain {
		in = append(in, c.scaleOf(l.Weight)...)
	}
	if l.Bias != nil {
		in = append(in, c.Leaf(l.Bias))
	}
	switch {
	case plain:
		op := l.observed(c, linearOp(t, l.Weight, l.Bias != nil, products))
		return adapter.add(c, x, c.G.Apply(op, in...), nil)
	case l.facts.Rank > 0:
		return l.fused(c, t, append(in, c.Leaf(l.adapter.a), c.Leaf(l.adapter.b))...)[0]
	}
	return adapter.add(c, x, l.fused(c, t, in...)[0], nil)
}

func linearOp(t int, weight *Param, bias bool, rounded core.DType) autograd.Op {
	out, in := weight.Tensor.Shape[0], weight.Tensor.Shape[1]
	one := products(1, t, out, in)
	wrt, each := []int{0, 1}, []core.Work{one, one}
	if bias {
		wrt, each = append(wrt, 2), append(each, core.Work{})
	}
	// dweight = dy^T * x, rows [from, to) of it
	weightGradient := func(g *autograd.Grads, from, to int, dst []float32, add bool) {
		matmul(rounded, simd.Product{M: to - from, N: in, K: t,
			A: simd.Matrix{Data: g.DOut[0].Float32s()[from:], Stride: out}, TransA: true,
			B: matrixAt(g.In[0].Float32s(), 0, in), C: dst, StrideC: in, Accumulate: add})
	}
	return autograd.Op{Name: "linear", Outputs: []autograd.Spec{autograd.Float32(t, out)}, Work: one,
		Forward: func(_ context.Context, args, y []core.Tensor) error {
			dst := y[0].Float32s()
			if bias { // there before the product, which is added to it: no second pass over y
				b := args[2].Float32s()
				eachRow(t, out, func(r int) { copy(dst[r*out:(r+1)*out], b) })
			}
			matmul(rounded, simd.Product{M: t, N: out, K: in, A: simd.Matrix{Data: args[0].Float32s(), Stride: in},
				B: weight.operand(args[1], 0), TransB: true, Dots: true, C: dst, StrideC: out, Accumulate: bias})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1}, Wrt: wrt, Accumulate: []int{0, 1}, Each: each,
			Parts: &autograd.Parts{Of: 1, Work: one, Run: func(g *autograd.Grads, from, to int, dst []float32) {
				weightGradient(g, from, to, dst, false)
			}},
			Run: func(_ context.Context, g *autograd.Grads) error {
				dy := g.DOut[0].Float32s()
				if d := g.DIn[0]; !d.IsZero() { // dx = dy * weight
					matmul(rounded, simd.Product{M: t, N: in, K: out, A: simd.Matrix{Data: dy, Stride: out},
						B: weight.operand(g.In[1], 0), C: d.Float32s(), StrideC: in, Accumulate: g.Add[0]})
				}
				if d := g.DIn[1]; !d.IsZero() {
					weightGradient(g, 0, out, d.Float32s(), g.Add[1])
				}
				if bias && !g.DIn[2].IsZero() {
					columnSums(g.DIn[2].Float32s(), t, func(sum []float64, r int) {
						for i, v := range dy[r*out : (r+1)*out] {
							sum[i] += float64(v)
						}
					})
				}
				return nil
			}},
	}
}

// products is the work of n matrix products of so many rows, columns and terms.
func products(n, rows, cols, terms int) core.Work {
	return core.Work{Products: 2 * float64(n) * float64(rows) * float64(cols) * float64(terms)}
}

// Embedding looks rows of its weight [V, D] up by token id.
type Embedding struct {
	Weight  *Param
	Padding int // a token whose row gets no gradient from here; negative for none
}

// NewEmbedding adds the parameter path.weight.
func NewEmbedding(b *Builder, path string, vocab, dim, padding int) *Embedding {
	return &Embedding{Weight: b.Param(path+".weight", vocab, dim), Padding: padding}
}

// Forward records the look-up of the batch's ids: y [T, D].
func (e *Embedding) Forward(c *Context) *autograd.Value {
	t, v, d := c.T(), e.Weight.Tensor.Shape[0], e.Weight.Tensor.Shape[1]
	looked := core.Work{Bytes: int64(4 * (2*t*d + t))} // only the rows that are looked up
	return c.G.Apply(autograd.Op{Name: "embedding", Outputs: []autograd.Spec{autograd.Float32(t, d)}, Work: looked,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			ids, y := in[1].Int32s(), out[0].Float32s()
			if err := inRange("token id", ids, v, c.S); err != nil {
				return err
			}
			eachRow(t, d, func(r int) { in[0].Load(y[r*d:(r+1)*d], int(ids[r])*d) })
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{1}, Wrt: []int{0}, Accumulate: []int{0},
			Looked: &autograd.Looked{Of: 0, Rows: 1, Skip: e.Padding},
			Run: func(_ context.Context, g *autograd.Grads) error {
				dw, ids, dy := g.DIn[0].Float32s(), g.In[1].Int32s(), g.DOut[0].Float32s()
				if !g.Add[0] {
					simd.Parallel(len(dw), grain, func(lo, hi int) { clear(dw[lo:hi]) })
				}
				// Each goroutine has some columns: rows of one token are summed in order.
				simd.Parallel(d, max(1, grain/max(t, 1)), func(lo, hi int) {
					for r, id := range ids {
						if int(id) == e.Padding {
							continue
						}
						dst := dw[int(id)*d+lo : int(id)*d+hi]
						simd.Add(dst, dst, dy[r*d+lo:r*d+hi])
					}
				})
				return nil
			}},
	}, c.Leaf(e.Weight), c.ids)
}
