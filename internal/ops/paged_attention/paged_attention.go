// Package pagedattention is the op paged_attention,
//
//	query i of sequence b, at position p = seq_len_b - query_len_b + i, and token j in (p - window, p] of it, j >= 0:
//	s_j = scale * q_i . k_j;  y_i = sum of softmax(s)_j * v_j
package pagedattention

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.PagedAttention,
	Single: run[float32], Double: run[float64],
	Usual: core.Facts{HeadDim: 16, Heads: 4, KVHeads: 2, BlockSize: 8, Scale: 0.25},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.KVHeads = 4 },
		func(f *core.Facts) { f.Window = 5 },
		func(f *core.Facts) { f.Scale = 0.3 },
		func(f *core.Facts) { f.BlockSize = 1 },
	},
	Kinds: []core.Facts{{HeadDim: 4, Heads: 2, KVHeads: 1, BlockSize: 4, Scale: 0.5},
		{HeadDim: 4, Heads: 2, KVHeads: 1, BlockSize: 4, Scale: 0.5, Window: 6}},
	Variants: []core.Facts{{HeadDim: 1, Heads: 1, KVHeads: 1, BlockSize: 1, Scale: 1},
		{HeadDim: 2, Heads: 7, KVHeads: 1, BlockSize: 3, Scale: 1, Window: 4},
		{HeadDim: 7, Heads: 3, KVHeads: 1, BlockSize: 3, Scale: 0.4},
		{HeadDim: 16, Heads: 4, KVHeads: 2, BlockSize: 16, Scale: 0.25, Window: 13},
		{HeadDim: 33, Heads: 2, KVHeads: 2, BlockSize: 5, Scale: 0.17, Window: 1},
		{HeadDim: 64, Heads: 6, KVHeads: 2, BlockSize: 16, Scale: 0.125},
		{HeadDim: 128, Heads: 4, KVHeads: 1, BlockSize: 32, Scale: 0.088}},
	Positions: 11,
	Settle:    settle,
	// What a query does not see must not reach it, whatever it is.
	NotFinite: func(in map[string][]core.Tensor) {
		garbage(in)
		in["q"][0].Store([]float32{float32(math.NaN())}, in["q"][0].Elems()-1)
		first(in, 0, "v_cache", math.Inf(1))
		first(in, 1, "k_cache", math.NaN())
		first(in, 2, "v_cache", math.NaN())
	},
	Zeros: []string{"q"},
	Cases: func(f core.Facts, add opdef.Adder) {
		most := 11 * f.BlockSize
		add("one new token each", 9, sequences(func(b, _ int) (int, int) { return 1, 1 + b*7919%most }))
		add("a whole prompt", min(40, most), sequences(func(_, T int) (int, int) { return T, T }))
		add("pieces", 83, sequences(func(b, T int) (int, int) { // long ones behind short ones and each other
			n := min(most, []int{1, 34, 4, 7, 36}[b%5])
			return n, n + b*31%(most-n+1)
		}))
		add("no tokens", 5, sequences(func(b, _ int) (int, int) { return 1, b % 2 * min(3, most) }))
		add("tokens of no sequence", 9, sequences(func(b, _ int) (int, int) { return max(0, 2-b), 3 }))
		add("no new token between others", 9, sequences(func(b, _ int) (int, int) { return (b + 1) % 2 * 2, 3 }))
		add("blocks that are not used yet", 12, opdef.Both(reserved, garbage))
		add("a shared beginning", 12, opdef.Both(shared, garbage))
		add("NaN in unused slots", 13, garbage)
		add("sharp", 20, opdef.Scaled("q", 100))
	},
	Extremes: extremes,
	Axes:     axes(),
	Large: []opdef.Large{
		{Tokens: 66, Change: func(f *core.Facts) {
			if f.HeadDim, f.Heads, f.KVHeads, f.BlockSize = 70, 6, 2, 66; f.Window > 0 {
				f.Window = 130
			}
		}, Edit: sequences(func(b, _ int) (int, int) { return []int{1, 40, 24, 1}[b], 725 - 150*b })},
	},
	Terms:  terms,
	Verify: func(u *opdef.Use) { u.Tokens, u.Positions = 12, 11 },
	Shapes: []opdef.Shape{
		{Name: "x16:8x128, 512 tokens each", Facts: core.Facts{HeadDim: 128, Heads: 16, KVHeads: 8, BlockSize: 16,
			Scale: 0.08838834764831845}},
	},
	Tokens:     []int{32, 128},
	Batch:      sequences(func(_, T int) (int, int) { return 1, T * 16 }), // as many as the cache has
	Recordings: []string{"paged_attention", "paged_prefill"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_paged_attention/pagedattention", Kernel: "new(Kernel)"},
}

// attention is the state of one call: q [T,H,d], caches [P,size,KV,d].
type attention[F opdef.Float] struct {
	f        core.Facts
	q, k, v  []F
	tables   []int32
	places   int // of a table
	new, all []int32
}

func newAttention[F opdef.Float](f core.Facts, q, k, v []F, in func(name string) core.Tensor) attention[F] {
	tables := in("block_tables")
	return attention[F]{f, q, k, v, tables.Int32s(), tables.Shape[1], in("query_lens").Int32s(), in("seq_lens").Int32s()}
}

func run[F opdef.Float](c *core.Call) {
	read := func(name string) []F { return opdef.Values[F](c.Input(name)) }
	a := newAttention(c.Facts, read("q"), read("k_cache"), read("v_cache"), c.Input)
	y, d := make([]F, len(a.q)), c.Facts.HeadDim
	a.each(func(t, h int, slots []int) {
		p := make([]float64, len(slots))
		for j, s := range slots {
			p[j] = a.score(t, h, s)
		}
		opdef.Softmax(p)
		for j, s := range slots {
			opdef.Axpy(y[(t*c.Facts.Heads+h)*d:][:d], F(p[j]), a.v[a.at(s, h):][:d])
		}
	})
	opdef.Store(c.Output("y"), y)
}

// each calls f for every token and head of a sequence that sees tokens, with the slots of these.
func (a attention[F]) each(f func(t, h int, slots []int)) {
	t, size := 0, a.f.BlockSize
	for b, n := range a.new {
		for i := range int(n) {
			p, first := int(a.all[b])-int(n)+i, 0
			if a.f.Window > 0 {
				first = max(0, p+1-a.f.Window)
			}
			var slots []int
			for j := first; j <= p; j++ {
				slots = append(slots, int(a.tables[b*a.places+j/size])*size+j%size)
			}
			for h := 0; h < a.f.Heads && len(slots) > 0; h++ {
				f(t, h, slots)
			}
			t++
		}
	}
}

// score is that of a query with a slot. It is float64 whatever F is, as that of attention.
func (a attention[F]) score(t, h, slot int) float64 {
	d, sum := a.f.HeadDim, 0.0
	q := a.q[(t*a.f.Heads+h)*d:][:d]
	for i, v := range a.k[a.at(slot, h):][:d] {
		sum += float64(q[i]) * float64(v)
	}
	return sum * a.f.Scale
}

// at is where in a cache that begins which a query head reads of a slot.
func (a attention[F]) at(slot, h int) int {
	return (slot*a.f.KVHeads + h/(a.f.Heads/a.f.KVHeads)) * a.f.HeadDim
}

// terms are those of attention: a softmax makes of the rounding of a score a relative error as large as the score.
func terms(in *opdef.Inputs, _ core.Pass, _ string) []float64 {
	a := newAttention(in.Facts, in.Wide("q"), in.Wide("k_cache"), in.Wide("v_cache"),
		func(name string) core.Tensor { return in.Named[name][0] })
	y, d := make(opdef.Squares, len(a.q)), in.Facts.HeadDim
	sums := max(1, math.Sqrt(float64(d))/4) // a running sum of d terms is rounded d times, on its way
	a.each(func(t, h int, slots []int) {
		at, p, sharp := (t*in.Facts.Heads+h)*d, make([]float64, len(slots)), 1.0
		for j, s := range slots {
			p[j] = a.score(t, h, s)
			size := sums * opdef.TermsOf(a.q[at:][:d], a.k[a.at(s, h):][:d]) * in.Facts.Scale
			sharp = max(sharp, math.Abs(p[j]), size)
		}
		opdef.Softmax(p)
		for j, s := range slots {
			for i, v := range a.v[a.at(s, h):][:d] {
				y.Add(at+i, p[j]*sharp*v)
			}
		}
	})
	return y.Roots()
}
