package nn

import (
	"context"
	"errors"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// attend records attention of the tokens that are fed over those of their sequences, after it has added
// them to the cache: q [S, H, C], k and v [S, KV, C], y [S, H, C]. Each token sees itself and all before it in its
// sequence; a window that is not 0 leaves the last so many of them.
func (c *Cache) attend(ctx *Context, a *Attention, q, k, v *autograd.Value) *autograd.Value {
	f := a.cfg
	store, paged := a.store.kernelFor(ctx, c.size), a.paged.kernelFor(ctx, c.size)
	l, err := c.pagesOf(a, store)
	if err != nil {
		ctx.fail(err)
		return q
	}
	in, at := []*autograd.Value{q, k, v}, ctx.batch.paged
	if store != nil {
		op := ctx.pagedOp(a.store, store, autograd.Float32(1), func(call *core.Call, in, out []core.Tensor) {
			call.In = append(call.In[:0], in[0], in[1], at.slots)
			call.Out[0], call.Out[1] = l.tensors(c.size, f.KVHeads)
			out[0].Float32s()[0] = 0
		})
		in = []*autograd.Value{q, ctx.G.Apply(op, k, v)} // which is nothing but before attention
	}
	y := autograd.Float32(ctx.S, f.Heads, f.HeadDim)
	own := cachedAttention{attentionShape: shapeOf(1, 0, f), pages: l, window: f.Window, room: &c.room}
	if a.sinks != nil {
		own.sinks = a.sinks.Tensor.Float32s()
	}
	op := autograd.Op{Name: "cached_attention", Outputs: []autograd.Spec{y},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			clear(out[0].Float32s()) // places without a token see nothing
			own.forward(c.pieces, in[0].Float32s(), out[0].Float32s())
			return nil
		}}
	if paged != nil {
		op = ctx.pagedOp(a.paged, paged, y, func(call *core.Call, in, out []core.Tensor) {
			keys, values := l.tensors(c.size, f.KVHeads)
			call.In = append(call.In[:0], in[0], keys, values, at.tables, at.queries, at.lens)
			call.Out[0] = out[0]
		})
		op.Memory = core.OutputsOf(paged, nil)
	}
	forward := op.Forward
	op.Forward = func(run context.Context, in, out []core.Tensor) error {
		if len(c.pieces) == 0 {
			return errors.New("nn: no tokens were fed; Fill the batch before the run")
		}
		if store == nil {
			own.store(c.pieces, in[1].Float32s(), in[2].Float32s())
		}
		return forward(run, in, out)
	}
	return ctx.G.Apply(op, in...)
}

// pagesOf returns the pages of a layer. They lie where the kernel that stores can write, or in the cache's own memory
// if there is none.
func (c *Cache) pagesOf(a *Attention, store core.Kernel) (*pages, error) {
	mem := c.mem
	if store != nil {
		mem = core.OutputsOf(store, mem)
	}
	l := c.layers[a]
	if l == nil {
		l = &pages{mem: mem, width: a.cfg.KVHeads * a.cfg.HeadDim}
		c.layers[a] = l
	}
	n := len(c.blocks.users)
	if n > 0 && (l.block == nil || l.mem != mem) {
		if err := l.grow(mem, n, n, c.size); err != nil {
			return nil, err
		}
	}
	l.mem = mem
	return l, nil
}

// room is memory for the attention of one run.
type room struct{ scores, keys, values []float32 }

// cachedAttention is attention of the tokens of a run over the pages of a layer.
type cachedAttention struct {
	attentionShape // of one piece
	pages          *pages
	window         int
	sinks          []float32 // of each head; nil for none
	*room
}

// store stores k and v.
func (a cachedAttention) store(pieces []Piece, k, v []float32) {
	at := 0
	for _, p := range pieces {
		n := len(p.IDs)
		a.pages.put(a.pages.keys, p.Sequence, n, k[at*a.pages.width:])
		a.pages.put(a.pages.values, p.Sequence, n, v[at*a.pages.width:])
		at += n
	}
}

// forward computes y for q.
func (a cachedAttention) forward(pieces []Piece, q, y []float32) {
	var single []query
	at, width := 0, a.heads*a.c
	for _, p := range pieces {
		n := len(p.IDs)
		if n == 1 {
			single = append(single, query{p.Sequence, q[at*width:][:width], y[at*width:][:width]})
		} else {
			a.piece(p, q[at*width:][:n*width], y[at*width:][:n*width])
		}
		at += n
	}
	a.single(single)
}

// first returns the first key that a token at this position sees.
func (a cachedAttention) first(position int) int {
	if a.window == 0 {
		return 0
	}
	return max(0, position+1-a.window)
}

// query is that of a single token, [H, C] each.
type query struct {
	*Sequence
	q, y []float32
}

// tokensAtOnce is of how many tokens single reads the keys, or the values, at a time.
const tokensAtOnce = 8

// single computes y of single tokens. Keys and values are read where they are, and once for the heads that share
// them; neither the size of the blocks nor other tokens change a bit.
func (a cachedAttention) single(queries []query) {
	if len(queries) == 0 {
		return
	}
	group, most := a.heads/a.kv, 0
	for _, u := range queries {
		most = max(most, u.Len()+1-a.first(u.Len()))
	}
	scores := grown(&a.room.scores, len(queries)*a.heads*most)
	simd.Parallel(len(queries)*a.kv, max(1, grain/(2*group*a.c*most)), func(lo, hi int) {
		for i := lo; i < hi; {
			u, g := i/a.kv, i%a.kv
			to := min(a.kv, g+hi-i)
			a.sharing(queries[u], g, to, scores[u*a.heads*most:], most)
			i += to - g
		}
	})
}

// sharing computes y of a single token for the heads that share key heads [lo, hi), with the scores of each head most
// after those of the one before.
func (a cachedAttention) sharing(u query, lo, hi int, scores []float32, most int) {
	group, from, to := a.heads/a.kv, a.first(u.Len()), u.Len()+1
	a.eachFew(u.Sequence, a.pages.keys, from, to, lo, hi, func(g, j, n int, keys []float32) {
		h := g * group
		simd.DotRows(group, n, a.c, u.q[h*a.c:], a.c, keys, a.pages.width, scores[h*most+j:], most)
	})
	for h := lo * group; h < hi*group; h++ {
		a.weigh(scores[h*most:][:to-from], 0, to-from, h, a.sinks)
	}
	a.eachFew(u.Sequence, a.pages.values, from, to, lo, hi, func(g, j, n int, values []float32) {
		h := g * group
		simd.AddRows(group, n, a.c, scores[h*most+j:], most, values, a.pages.width, u.y[h*a.c:], a.c)
	})
}

// eachFew calls f for a few tokens of [from, to) at a time, n from number j on, for each of key heads [lo, hi): x is what is
// stored of all, and rows are theirs. So memory is read in the order of its addresses, and what is next is asked for.
func (a cachedAttention) eachFew(s *Sequence, x []float32, from, to, lo, hi int, f func(g, j, n int, rows []float32)) {
	width := a.pages.width
	a.pages.runs(s, from, to, func(j, at, all int) {
		x := x[at:]
		for t := 0; t < all; t += tokensAtOnce {
			n := min(tokensAtOnce, all-t)
			for next := t + n; next < min(t+n+tokensAtOnce, all); next++ {
				simd.Prefetch(x[next*width+lo*a.c : next*width+hi*a.c])
			}
			for g := lo; g < hi; g++ {
				f(g, j+t, n, x[t*width+g*a.c:])
			}
		}
	})
}

// mostScores is how many scores there may be at a time: 16 MiB, unless one head has more.
const mostScores = 4 << 20

// tileTokens is how many tokens of a piece are computed at a time. The bits of a token follow from how many keys are
// multiplied at once, so those of a prompt are the same in pieces of any multiple of this.
const tileTokens = 128

// piece computes y [n, H, C] of several tokens of a sequence, by products with what lies in its blocks, which is brought
// together before.
func (a cachedAttention) piece(p Piece, q, y []float32) {
	n, width := len(p.IDs), a.heads*a.c
	lo := a.first(p.Len())
	all := p.Len() + n - lo
	keys, values := a.gather(p.Sequence, lo, all)
	for t := 0; t < n; t += tileTokens {
		a.s = min(tileTokens, n-t)
		from := a.first(p.Len() + t)
		skip := (from - lo) * a.c
		a.tile(p.Len()+t, from, all, keys[skip:], values[skip:], q[t*width:], y[t*width:])
	}
}

// tile computes y of S tokens from a position on, some heads at a time. The keys and values of a head are those from a token
// on, and pitch of them lie before those of the next.
func (a cachedAttention) tile(at, from, pitch int, keys, values, q, y []float32) {
	width := at + a.s - from
	group := min(a.heads, max(1, mostScores/(a.s*width)))
	scores := grown(&a.room.scores, group*a.s*width)
	for h0 := 0; h0 < a.heads; h0 += group {
		var in, out []simd.Product
		for h := h0; h < min(h0+group, a.heads); h++ {
			own, key := (h-h0)*a.s*width, h/(a.heads/a.kv)*pitch*a.c
			d := a.head(y, h, a.heads)
			in = append(in, simd.Product{M: a.s, N: width, K: a.c, A: a.head(q, h, a.heads), TransB: true, // p = q k^T
				B: simd.Matrix{Data: keys[key:], Stride: a.c}, C: scores[own:], StrideC: width})
			out = append(out, simd.Product{M: a.s, N: a.c, K: width, // y = p v
				A: simd.Matrix{Data: scores[own:], Stride: width}, B: simd.Matrix{Data: values[key:], Stride: a.c},
				C: d.Data, StrideC: d.Stride})
		}
		simd.Multiply(in...)
		eachRow(len(in)*a.s, width, func(r int) {
			position := at + r%a.s
			a.weigh(scores[r*width:][:width], a.first(position)-from, position+1-from, h0+r/a.s, a.sinks)
		})
		simd.Multiply(out...)
	}
}

// gather copies n keys and values of a sequence from token lo on, [heads, n, C].
func (a cachedAttention) gather(s *Sequence, lo, n int) (keys, values []float32) {
	keys, values = grown(&a.room.keys, n*a.pages.width), grown(&a.room.values, n*a.pages.width)
	eachRow(n, 2*a.pages.width, func(j int) {
		from := a.pages.at(s, lo+j)
		for g := range a.kv {
			copy(keys[(g*n+j)*a.c:][:a.c], a.pages.keys[from+g*a.c:])
			copy(values[(g*n+j)*a.c:][:a.c], a.pages.values[from+g*a.c:])
		}
	})
	return keys, values
}

// grown returns room of n elements, and makes it larger if it has to be: a sequence gets longer.
func grown(room *[]float32, n int) []float32 {
	if len(*room) < n {
		*room = make([]float32, n+n/4)
	}
	return (*room)[:n]
}
