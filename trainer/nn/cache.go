package nn

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Cache holds the rotated keys and the values of the tokens of one sequence that a model
// has read, so that a graph computes only the tokens that come next. Graphs for several
// numbers of tokens share one; see NewCachedContext. It is not safe for concurrent use.
type Cache struct {
	mem      core.Memory
	capacity int
	length   int // tokens in the cache
	fed      int // tokens of the run to come, which follow them
	layers   map[*Attention]*keysValues
	scores   []float32 // room for the attention of one run
}

// NewCache returns an empty cache with room for so many tokens. The memory of a layer's
// keys and values is taken from mem when the first graph is recorded.
func NewCache(mem core.Memory, capacity int) *Cache {
	return &Cache{mem: mem, capacity: capacity, layers: map[*Attention]*keysValues{}}
}

// Len returns the number of tokens in the cache.
func (c *Cache) Len() int { return c.length }

// Cap returns the number of tokens that the cache has room for.
func (c *Cache) Cap() int { return c.capacity }

// Bytes returns the memory that keys and values take.
func (c *Cache) Bytes() int {
	n := 0
	for _, l := range c.layers {
		n += len(l.block)
	}
	return n
}

// Truncate forgets all tokens but the first n; what is not there is not missed.
func (c *Cache) Truncate(n int) { c.length = min(c.length, max(n, 0)) }

// Grow makes room for more tokens and keeps those that are there. Graphs have tables of
// the old size: close them before, and record them again.
func (c *Cache) Grow(capacity int) error {
	if capacity <= c.capacity {
		return nil
	}
	for _, l := range c.layers {
		if err := l.grow(c.mem, c.length, capacity); err != nil {
			return err
		}
	}
	c.capacity = capacity
	return nil
}

// Free gives the memory back. No graph of the cache may run afterwards.
func (c *Cache) Free() {
	for _, l := range c.layers {
		c.mem.Free(l.block)
	}
	clear(c.layers)
	c.length, c.scores = 0, nil
}

// NewCachedContext starts a graph that reads up to s tokens of one sequence at a time,
// after those in the cache. Its Forward records the logits of the last of them alone,
// [1, V]; see Cache.Fill. Compile it forward only.
func NewCachedContext(mem core.Memory, cache *Cache, s int) (*Context, error) {
	c, err := NewContext(mem, 1, s, cache.capacity)
	if err != nil {
		return nil, err
	}
	c.cache = cache
	return c, nil
}

// Fill makes the next tokens of the sequence the input of a graph of this cache; there
// may be fewer than the graph takes. After the run Advance makes them a part of the cache.
func (c *Cache) Fill(b *Batch, ids []int32) error {
	switch {
	case len(ids) == 0 || len(ids) > b.S:
		return fmt.Errorf("nn: %d tokens for a graph that reads between 1 and %d", len(ids), b.S)
	case c.length+len(ids) > c.capacity:
		return fmt.Errorf("nn: %d tokens do not fit a cache of %d that holds %d", len(ids), c.capacity, c.length)
	}
	c.fed = len(ids)
	for i := range b.S {
		id, position, end := int32(0), 0, int32(0) // of a place without a token, which sees nothing and is not kept
		if i < len(ids) {
			id, position = ids[i], c.length+i
			end = int32(position + 1)
		}
		b.IDs[i], b.Positions[i], b.Labels[i] = id, int32(position), 0
		b.Keys[2*i], b.Keys[2*i+1] = 0, end
	}
	b.Labels[0] = int32(len(ids) - 1)
	return nil
}

// Advance adds the tokens of the last run to the cache.
func (c *Cache) Advance() {
	c.length += c.fed
	c.fed = 0
}

// next records the logits of the last token that was fed, [1, V], given the model's
// normed output. The loss is the largest of them, which is finite if the logits are.
func (d *Decoder) next(c *Context, out *Output) *Output {
	last := inPath(c, "last", func() *autograd.Value { return pickRow(c, out.Normed) })
	out.Logits = inPath(c, "lm_head", func() *autograd.Value { return d.head.Forward(c, last) })
	out.Loss = inPath(c, "lm_head", func() *autograd.Value { return maximum(c.G, out.Logits) })
	return out
}

// pickRow records the row of x [T, D] whose index is the first label: y [1, D].
func pickRow(c *Context, x *autograd.Value) *autograd.Value {
	d := x.Shape()[1]
	return c.G.Apply(autograd.Op{Name: "pick_row", Outputs: []autograd.Spec{autograd.Float32(1, d)},
		Work: core.Work{Bytes: int64(8 * d)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			copy(out[0].Float32s(), in[0].Float32s()[int(in[1].Int32s()[0])*d:])
			return nil
		}}, x, c.labels)
}

// maximum records the largest element of x, NaN if there is one.
func maximum(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	return g.Apply(autograd.Op{Name: "maximum", Outputs: []autograd.Spec{autograd.Float32()},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			out[0].Float32s()[0] = maximumOf(in[0].Float32s())
			return nil
		}}, x)
}

// maximumOf is slices.Max, which takes a millisecond for the tokens of a large vocabulary.
func maximumOf(x []float32) float32 {
	most := x[0]
	for _, v := range x {
		if v > most {
			most = v
		} else if v != v {
			return v
		}
	}
	return most
}
