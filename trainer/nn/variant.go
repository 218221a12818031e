package nn

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Variant is a model with adapters that some sequences of a cache have, while others have those of another variant, or
// none: the model's own weights are there once. What a row of a graph becomes follows from its own sequence alone. A
// graph without a cache has none of these adapters.
type Variant struct {
	body     *Body
	root     content // what a block of its sequences is behind, so that no other sequence shares it
	adapters map[**adapter]*adapter
	params   []*Param
}

// Variant adds one that has no adapters yet.
func (b *Body) Variant() *Variant {
	v := &Variant{body: b, adapters: map[**adapter]*adapter{}}
	v.root = sha256.Sum256(fmt.Appendf(nil, "variant %d", len(b.use.variants)))
	b.use.variants = append(b.use.variants, v)
	return v
}

// Adapt puts an adapter on a target, as Body.Adapt does, for the sequences of the variant. Kernels that cannot do
// without knowing of it are kept off; the layer's own are not.
func (v *Variant) Adapt(t Target, with Adaptation) (A, B *Param, err error) {
	if A, B, err = v.body.newAdapter(t, with.Rank); err != nil {
		return nil, nil, err
	}
	v.params = append(v.params, A, B)
	v.adapters[t.at] = &adapter{Adaptation: with, a: A, b: B}
	v.body.keepPlain(t)
	return A, B, nil
}

// NewSequenceOf returns a sequence without tokens that a variant reads, or the model alone for nil.
func (c *Cache) NewSequenceOf(v *Variant) *Sequence { return &Sequence{cache: c, variant: v} }

// root is what the first block of the sequence is behind.
func (s *Sequence) root() content {
	if s.variant == nil {
		return content{}
	}
	return s.variant.root
}

// span is rows of a graph, side by side, of sequences that have the same adapter at a place.
type span struct {
	*adapter
	from, rows int
}

// spans returns the rows of the run that have an adapter at that place. Where all rows are of one sequence, they are
// all of it, also those without a token: that is how a model with one adapter computes them.
func (c *Context) spans(at **adapter) (all []span) {
	from := 0
	for _, p := range c.cache.pieces {
		rows := len(p.IDs)
		if !c.each {
			rows = c.T()
		}
		last := len(all) - 1
		switch l := p.variant.at(at); {
		case l == nil:
		case last >= 0 && all[last].adapter == l && all[last].from+all[last].rows == from:
			all[last].rows += rows
		default:
			all = append(all, span{l, from, rows})
		}
		from += rows
	}
	return all
}

// at returns the variant's adapter at a place, nil for none.
func (v *Variant) at(at **adapter) *adapter {
	if v == nil {
		return nil
	}
	return v.adapters[at]
}

// variants records y plus what the adapters at a place make of x, each of the rows of its sequences: x [n, in],
// y [n, out]. sorted says which rows are whose, if they are sorted by expert. Without adapters it is y.
func (c *Context) variants(s *site, at **adapter, x, y *autograd.Value, sorted *permuted) *autograd.Value {
	rank := 0
	if c.cache != nil && s != nil {
		for _, v := range s.use.variants {
			if l := v.at(at); l != nil {
				rank = max(rank, l.Rank)
			}
		}
	}
	if rank == 0 {
		return y
	}
	in := []*autograd.Value{y, x}
	if sorted != nil {
		in = append(in, sorted.where, sorted.offsets)
	}
	n, cols, out := x.Shape()[0], x.Shape()[1], y.Shape()[1]
	few, products := c.T() <= simd.FewRows, core.InvalidDType
	if sorted == nil {
		products = s.facts.Products
	}
	return c.G.ApplyAll(autograd.Op{Name: "lora_variants", InPlace: true,
		Outputs: []autograd.Spec{autograd.Float32(n, out), autograd.Float32(n, rank)},
		Work:    core.Work{Products: 2 * float64(n) * float64(rank) * float64(cols+out)},
		Forward: func(_ context.Context, args, to []core.Tensor) error {
			before, x, sum, u := args[0].Float32s(), args[1].Float32s(), to[0].Float32s(), to[1].Float32s()
			if &sum[0] != &before[0] {
				simd.Parallel(len(sum), grain, func(lo, hi int) { copy(sum[lo:hi], before[lo:hi]) })
			}
			parts := wholes(c.spans(at))
			if sorted != nil {
				parts = byExpert(c.spans(at), args[2], args[3].Int32s())
			}
			addParts(parts, products, few, x, u, sum)
			return nil
		}}, in...)[0]
}

// part is rows that have one A [r, in] and one B [out, r].
type part struct {
	span
	expert int
}

// down and up are the products of the rows with A and with B; few says that all products of the graph are of few rows.
func (p part) down(few bool, x, u []float32) simd.Product {
	r, in := p.sizes(p.a)
	return simd.Product{M: p.rows, N: r, K: in, A: matrixAt(x, p.from, in),
		B: matrixAt(p.a.Tensor.Float32s(), p.expert*r, in), TransB: true, Dots: few, C: u, StrideC: r}
}

func (p part) up(few bool, u, y []float32) simd.Product {
	out, r := p.sizes(p.b)
	return simd.Product{M: p.rows, N: out, K: r, A: matrixAt(u, 0, r),
		B: matrixAt(p.b.Tensor.Float32s(), p.expert*out, r), TransB: true, Dots: few,
		C: y[p.from*out:], StrideC: out, Accumulate: true}
}

// wholes are spans of a layer that has no experts.
func wholes(spans []span) (parts []part) {
	for _, s := range spans {
		parts = append(parts, part{span: s})
	}
	return parts
}

// byExpert cuts spans of tokens into rows that are sorted by expert: where [T, K] says which rows are a token's, and
// the rows of expert e are [offsets[e], offsets[e+1]), in the order of their tokens.
func byExpert(spans []span, where core.Tensor, offsets []int32) (parts []part) {
	k, rows := where.Shape[1], where.Int32s()
	token := make([]int, len(rows))
	for a, row := range rows {
		token[row] = a / k
	}
	for _, s := range spans {
		for e := range len(offsets) - 1 {
			own, first := token[offsets[e]:offsets[e+1]], int(offsets[e])
			from, _ := slices.BinarySearch(own, s.from)
			end, _ := slices.BinarySearch(own, s.from+s.rows)
			if end > from {
				parts = append(parts, part{span{s.adapter, first + from, end - from}, e})
			}
		}
	}
	return parts
}

// addParts adds scale * x A^T B^T to the rows of y that have an adapter; u has room for x A^T of every row.
func addParts(parts []part, products core.DType, few bool, x, u, y []float32) {
	if len(parts) == 0 {
		return
	}
	var down, up []simd.Product
	at := 0
	for _, p := range parts {
		n := p.rows * p.Rank
		own := u[at:][:n]
		down, up = append(down, p.down(few, x, own)), append(up, p.up(few, own, y))
		at += n
	}
	matmul(products, down...)
	at = 0
	for _, p := range parts {
		own := u[at:][:p.rows*p.Rank]
		simd.Scale(own, own, float32(p.Scale))
		at += len(own)
	}
	matmul(products, up...)
}
