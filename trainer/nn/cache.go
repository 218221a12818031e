package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// ErrNoBlocks says that a cache has no block left for the next tokens of a sequence.
var ErrNoBlocks = errors.New("nn: the cache has no block left")

// Cache holds the rotated keys and the values of the tokens that a model has read, of any number of sequences,
// so that a graph computes only the tokens that come next. It is made of blocks, each with room for as many
// tokens as any other; a sequence has those that it needs, in any order, and sequences that begin with the same
// tokens, and are of one Variant, share the full blocks of that. Graphs for several numbers of tokens have one cache; see
// NewCachedContext. It is not safe for concurrent use.
type Cache struct {
	// Keeps says that what no sequence has any more can be found as long as there is memory for other blocks, up
	// to the most. Without it, sequences have nothing in common.
	Keeps bool

	mem    core.Memory
	size   int // tokens that a block has room for
	most   int // blocks
	blocks blocks
	layers map[*Attention]*pages
	pieces []Piece // of the run to come
	room   room
}

// Piece is what a run adds to a sequence.
type Piece struct {
	*Sequence
	IDs []int32
}

// firstBlocks is for how many blocks there is memory at first.
const firstBlocks = 16

// NewCache returns an empty cache of at most so many blocks of so many tokens. Their memory is taken from mem as
// they are needed.
func NewCache(mem core.Memory, size, most int) *Cache {
	return &Cache{mem: mem, size: size, most: most, layers: map[*Attention]*pages{},
		blocks: blocks{found: map[content]int32{}}}
}

// Bytes returns the memory that keys and values take.
func (c *Cache) Bytes() int {
	n := 0
	for _, l := range c.layers {
		n += len(l.block)
	}
	return n
}

// Used returns how many blocks sequences have, and how many they can have.
func (c *Cache) Used() (blocks, most int) { return c.blocks.used(), c.most }

// Free gives the memory back. No graph of the cache may run afterwards, and its sequences are lost.
func (c *Cache) Free() {
	for _, l := range c.layers {
		l.mem.Free(l.block)
	}
	clear(c.layers)
	c.blocks, c.room = blocks{found: map[content]int32{}}, room{}
}

// take returns a block, for which there is memory. What somebody could still find is the last to go.
func (c *Cache) take() (int32, error) {
	n := len(c.blocks.users)
	if more := min(max(n, firstBlocks), c.most-n); more > 0 && !c.blocks.idle() {
		for _, l := range c.layers {
			if err := l.grow(l.mem, n, n+more, c.size); err != nil {
				return 0, err
			}
		}
		c.blocks.more(more)
	}
	return c.blocks.take()
}

// NewCachedContext starts a graph that reads up to s tokens at a time, at positions below a limit. With each, they
// are of as many sequences, and its Forward records the logits after each of them, [s, V]; otherwise they are of
// one, and it records the logits of the last of them alone, [1, V]. See Cache.Fill. Compile it forward only.
func NewCachedContext(mem core.Memory, cache *Cache, s, positions int, each bool) (*Context, error) {
	c, err := NewContext(mem, 1, s, positions)
	if err != nil {
		return nil, err
	}
	c.cache, c.each = cache, each
	sequences := 1
	if each {
		sequences = s
	}
	if c.batch.paged, err = newPagedInput(c.G, sequences, (positions+cache.size-1)/cache.size, s); err != nil {
		c.G.Release()
		return nil, err
	}
	return c, nil
}

// Fill makes the next tokens of sequences, which have room for them (see Sequence.Reserve), the input of a graph
// of this cache; there may be fewer than the graph takes. After the run Advance makes them a part of the sequences.
func (c *Cache) Fill(b *Batch, pieces ...Piece) error {
	c.pieces = append(c.pieces[:0], pieces...)
	at := 0
	for _, p := range pieces {
		switch {
		case len(p.IDs) == 0 || at+len(p.IDs) > b.S:
			return fmt.Errorf("nn: %d tokens after %d for a graph that reads between 1 and %d", len(p.IDs), at, b.S)
		case p.Len()+len(p.IDs) > len(p.table)*c.size:
			return fmt.Errorf("nn: %d tokens do not fit a sequence of %d that has %d blocks of %d", len(p.IDs), p.Len(),
				len(p.table), c.size)
		}
		for i, id := range p.IDs {
			b.IDs[at+i], b.Positions[at+i] = id, int32(p.Len()+i)
		}
		at += len(p.IDs)
	}
	clear(b.IDs[at:])
	clear(b.Positions[at:])
	clear(b.Labels)
	b.Labels[0] = int32(at - 1)
	b.paged.fill(pieces, c.size)
	return nil
}

// Advance adds the tokens of the last run to their sequences.
func (c *Cache) Advance() {
	for _, p := range c.pieces {
		p.advance(p.IDs)
	}
	c.pieces = c.pieces[:0]
}

// next records the logits of the last token that was fed, [1, V], or of each, given the model's
// normed output. The loss is the largest of them, which is finite if the logits are. A silent graph has none, and its
// loss is the largest element that they would be computed from.
func (d *Decoder) next(c *Context, out *Output) *Output {
	last := out.Normed
	if !c.each {
		last = inPath(c, "last", func() *autograd.Value { return pickRow(c, out.Normed) })
	}
	last = scaled(c, last, d.cfg.Scales.Logits)
	if c.Silent {
		out.Loss = inPath(c, "last", func() *autograd.Value { return maximum(c.G, last) })
		return out
	}
	out.Logits = inPath(c, "lm_head", func() *autograd.Value { return logitsOf(c, d.head, d.cfg.LogitCap, last) })
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

// maximumOf is slices.Max, which takes milliseconds for the tokens of a large vocabulary.
func maximumOf(x []float32) float32 {
	const part = 1 << 12 // stays in the first-level cache
	var found sync.Mutex
	most, finite := float32(math.Inf(-1)), true
	simd.Parallel(len(x), 16*part, func(lo, hi int) {
		high, sum := float32(math.Inf(-1)), 0.0
		for ; lo < hi; lo += part {
			v := x[lo:min(lo+part, hi)]
			high, sum = max(high, simd.Max(v)), sum+simd.SumSquares(v) // in float64, where squares of float32 are finite
		}
		found.Lock()
		defer found.Unlock()
		most, finite = max(most, high), finite && !math.IsNaN(sum) && !math.IsInf(sum, 0)
	})
	if !finite {
		return slices.Max(x)
	}
	return most
}
