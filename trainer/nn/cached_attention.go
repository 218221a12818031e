package nn

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// attend records attention over the cache and the tokens that are fed, which it adds to
// the cache: q [S, H, C], k and v [S, KV, C], y [S, H, C]. The graph's keys [S, 2] count
// over the tokens of the sequence; a window that is not 0 leaves the last so many of them.
func (c *Cache) attend(ctx *Context, a *Attention, q, k, v *autograd.Value, window int) *autograd.Value {
	f := a.cfg
	l := c.layers[a]
	if l == nil {
		l = &keysValues{heads: f.KVHeads, c: f.HeadDim}
		if err := l.grow(c.mem, 0, c.capacity); err != nil {
			ctx.fail(err)
			return q
		}
		c.layers[a] = l
	}
	at := cachedAttention{attentionShape{b: 1, s: ctx.S, heads: f.Heads, kv: f.KVHeads, c: f.HeadDim}, l, window}
	return ctx.G.Apply(autograd.Op{Name: "cached_attention",
		Outputs: []autograd.Spec{autograd.Float32(ctx.S, f.Heads, f.HeadDim)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			if c.fed == 0 {
				return errors.New("nn: no tokens were fed; Fill the batch before the run")
			}
			l.put(l.keys, in[1].Float32s(), c.length, c.fed)
			l.put(l.values, in[2].Float32s(), c.length, c.fed)
			c.scores = at.forward(in[0].Float32s(), in[3].Int32s(), out[0].Float32s(), c.scores)
			return nil
		}}, q, k, v, ctx.keys)
}

// keysValues are those of one layer, [heads, capacity, C] each: those of a head lie side
// by side, because decoding reads all of them for every token.
type keysValues struct {
	block        []byte
	keys, values []float32
	heads, c     int
	capacity     int
}

// grow moves the first n tokens to a larger place.
func (l *keysValues) grow(mem core.Memory, n, capacity int) error {
	old, shape := *l, core.Shape{2, l.heads, capacity, l.c}
	size, err := bytesOf(core.Float32, shape)
	if err == nil {
		l.block, err = mem.Alloc(size)
	}
	if err != nil {
		return fmt.Errorf("nn: cache of %d tokens: %w", capacity, err)
	}
	both := core.Tensor{DType: core.Float32, Shape: shape, Data: l.block}.Float32s()
	l.capacity, l.keys, l.values = capacity, both[:len(both)/2], both[len(both)/2:]
	if old.block == nil {
		return nil
	}
	for g := range l.heads {
		copy(l.keys[g*capacity*l.c:], old.keys[g*old.capacity*l.c:][:n*l.c])
		copy(l.values[g*capacity*l.c:], old.values[g*old.capacity*l.c:][:n*l.c])
	}
	mem.Free(old.block)
	return nil
}

// put stores the first n tokens of x [S, heads, C] from token at on.
func (l *keysValues) put(dst, x []float32, at, n int) {
	for t := range n {
		for g := range l.heads {
			copy(dst[(g*l.capacity+at+t)*l.c:][:l.c], x[(t*l.heads+g)*l.c:])
		}
	}
}

// from returns what is stored of head g from token lo on, [_, C].
func (l *keysValues) from(x []float32, g, lo int) simd.Matrix {
	return simd.Matrix{Data: x[(g*l.capacity+lo)*l.c : (g+1)*l.capacity*l.c], Stride: l.c}
}

// cachedAttention is attention of the S tokens of a run over the cache of a layer.
type cachedAttention struct {
	attentionShape
	cached *keysValues
	window int
}

// seen returns the range of keys that token t sees.
func (a cachedAttention) seen(keys []int32, t int) (first, end int) {
	first, end = int(keys[2*t]), int(keys[2*t+1])
	if a.window > 0 {
		first = max(first, end-a.window)
	}
	return first, end
}

// mostScores is how many scores there may be at a time: 16 MiB, unless one head has more.
const mostScores = 4 << 20

// forward computes y for q, some heads at a time. It uses the room for scores, and
// returns it, larger if it had to be.
func (a cachedAttention) forward(q []float32, keys []int32, y, room []float32) []float32 {
	lo, hi := a.span(keys)
	width := hi - lo
	group := min(a.heads, max(a.heads/a.kv, mostScores/(a.s*width)/(a.heads/a.kv)*(a.heads/a.kv)))
	if n := group * a.s * width; len(room) < n {
		room = make([]float32, n+n/4) // a sequence gets longer
	}
	for h := 0; h < a.heads; h += group {
		units := a.units(h, min(h+group, a.heads), width)
		simd.Multiply(eachUnit(units, func(u queries) simd.Product { // p = q k^T
			return simd.Product{M: u.n, N: width, K: a.c, A: u.of(q), B: a.cached.from(a.cached.keys, u.key, lo), TransB: true,
				Dots: a.s == 1,
				C:    room[u.scores:], StrideC: width}
		})...)
		a.softmax(room, keys, units, lo, width)
		simd.Multiply(eachUnit(units, func(u queries) simd.Product { // y = p v
			d := u.of(y)
			return simd.Product{M: u.n, N: a.c, K: width, A: simd.Matrix{Data: room[u.scores:], Stride: width},
				B: a.cached.from(a.cached.values, u.key, lo), C: d.Data, StrideC: d.Stride}
		})...)
	}
	return room
}

// span returns the range of all keys that some query sees; the first sees one at least.
func (a cachedAttention) span(keys []int32) (lo, hi int) {
	lo, hi = a.seen(keys, 0)
	for t := 1; t < a.s; t++ {
		if first, end := a.seen(keys, t); first < end {
			lo, hi = min(lo, first), max(hi, end)
		}
	}
	return lo, hi
}

// queries are n rows of q that are multiplied with the keys of one head: those of a head
// for all tokens, or those of all heads that share the key head for a single token.
type queries struct {
	key, n, first, stride int // of the rows
	scores                int // where theirs begin
}

// of returns the rows of x [S, H, C].
func (u queries) of(x []float32) simd.Matrix { return simd.Matrix{Data: x[u.first:], Stride: u.stride} }

// units cuts the query heads [from, to) into what one product can take.
func (a cachedAttention) units(from, to, width int) []queries {
	var out []queries
	share := a.heads / a.kv
	heads, n, stride := 1, a.s, a.heads*a.c
	if a.s == 1 {
		heads, n, stride = share, share, a.c
	}
	for h := from; h < to; h += heads {
		out = append(out, queries{key: h / share, n: n, first: h * a.c, stride: stride, scores: (h - from) * a.s * width})
	}
	return out
}

// eachUnit makes one product for each unit.
func eachUnit(units []queries, product func(u queries) simd.Product) []simd.Product {
	var out []simd.Product
	for _, u := range units {
		out = append(out, product(u))
	}
	return out
}

// softmax turns the scores of the units into probabilities in place; key lo comes first.
func (a cachedAttention) softmax(p []float32, keys []int32, units []queries, lo, width int) {
	n := units[0].n
	eachRow(len(units)*n, width, func(r int) {
		first, end := a.seen(keys, r%n%a.s) // a single token sees the same with all its heads
		a.probabilities(p[units[r/n].scores+r%n*width:][:width], max(first-lo, 0), max(end-lo, 0))
	})
}
