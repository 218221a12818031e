package nn

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// Batch is the memory that a compiled graph reads its input from: fill it, then run.
type Batch struct {
	data.Batch // without Segments
	// Keys [B*S, 2] is what Segments come down to: the range of tokens, counted over the
	// batch, that each token attends to.
	Keys []int32
	// windows are the keys of layers that see no more than so many tokens back.
	windows []window
	// Divisor, one element, divides the summed loss: the number of targets of this batch,
	// or of all the batches whose gradients are accumulated.
	Divisor []float32
	paged   *pagedInput // of a graph with a cache
	// Noise, two words, decides what dropout takes away, where Context.Training is set:
	// the same noise takes away the same elements.
	Noise []int32
}

// Fill copies a batch of the same size in, which is to be Valid. The tokens of a document must follow each
// other in their row, and so must the tokens before a padding token that are none.
func (b *Batch) Fill(from data.Batch, divisor int) error {
	if err := from.Valid(); err != nil {
		return fmt.Errorf("nn: %w", err)
	}
	if from.B != b.B || from.S != b.S {
		return fmt.Errorf("nn: a batch of %dx%d for a graph of %dx%d", from.B, from.S, b.B, b.S)
	}
	for row := range b.B {
		lo, hi := row*b.S, (row+1)*b.S
		err := setKeys(b.Keys[2*lo:2*hi], from.Segments[lo:hi], lo)
		if err == nil && from.Forks != nil {
			err = b.setForks(b.Keys[2*lo:2*hi], from.Segments[lo:hi], from.Forks[row], lo)
		}
		if err != nil {
			return fmt.Errorf("nn: row %d of the batch: %w", row, err)
		}
	}
	for _, w := range b.windows {
		w.fill(b.Keys)
	}
	copy(b.IDs, from.IDs)
	copy(b.Labels, from.Labels)
	copy(b.Positions, from.Positions)
	b.Divisor[0] = float32(divisor)
	return nil
}

// Context is one graph under construction: the batch it reads and the leaves it has.
type Context struct {
	G        *autograd.Graph
	B, S     int
	Training bool // adapters have dropout
	Silent   bool // with a cache: nobody wants logits, since more of the prompt follows
	// Sums is the memory of gradients that are summed over several batches; nil for those of
	// each batch. See autograd.Graph.Accumulate.
	Sums core.Memory
	// Update says what becomes of each gradient as soon as it is complete; nil for gradients that stay. See
	// autograd.Graph.Update.
	Update *autograd.Updates
	// Watch returns what is called in the place of a site's kernel, to look at what it
	// gives; nil for the kernel itself.
	Watch func(core.Kernel) core.Kernel
	// Weigh, if not nil, gives the loss of the batch in place of the mean: it is told the loss of each token [T],
	// 0 where there is no target, and sets what each changes the loss by.
	Weigh autograd.Weigh
	// Observe, if not nil, is shown the input of each linear layer without a kernel.
	Observe func(l *Linear, x []float32)
	// Checkpoint has what lies within a decoder's layers computed again for the backward pass; see
	// autograd.Graph.Checkpoint.
	Checkpoint bool
	// CheckpointParts are what Checkpoint is of, see LayerPart; nil for all layers.
	CheckpointParts []string

	batch     *Batch
	positions int // rows of the rope tables
	ids       *autograd.Value
	labels    *autograd.Value
	pos       *autograd.Value
	keys      *autograd.Value
	windows   map[int]*autograd.Value // the keys within a sliding window, by its size
	routed    []routes                // what the model's routers decided, in the order of its layers
	divisor   *autograd.Value
	noise     *autograd.Value
	leaves    map[*Param]*autograd.Value
	tables    map[*RopeTable][2]*autograd.Value
	number    int    // of the layer that is recorded
	whole     bool   // all of it is computed again
	again     bool   // the layer, or the part of it, that is recorded is computed again
	leave     func() // ends what cheap began
	cache     *Cache // keys and values of the tokens before; nil without
	each      bool   // with a cache: the logits after each token are wanted
	swaps     int    // of the model's sites when its forward was recorded; -1 if nothing tells
	err       error
}

// MaxTokens is the most tokens that a batch may have.
const MaxTokens = 1 << 28

// NewContext starts a graph for B rows of S positions, none at or above maxPosition,
// with its own batch in mem.
func NewContext(mem core.Memory, b, s, maxPosition int) (*Context, error) {
	if mem == nil {
		return nil, noMemory("a graph")
	}
	if b < 1 || s < 1 || b > MaxTokens/s {
		return nil, fmt.Errorf("nn: a batch of %d rows of %d tokens; both must be positive, and at most %d tokens in all", b,
			s, MaxTokens)
	}
	n := b * s
	g := autograd.New(mem)
	block, err := g.Alloc(4 * (5*n + 3))
	if err != nil {
		return nil, fmt.Errorf("nn: batch: %w", err)
	}
	ints := core.Tensor{DType: core.Int32, Shape: core.Shape{5*n + 3}, Data: block}
	part := func(i int) core.Tensor { return ints.Slice(i*n, (i+1)*n, n) }
	keys := ints.Slice(3*n, 5*n, n, 2)
	divisor := core.Tensor{DType: core.Float32, Shape: core.Shape{1}, Data: block[20*n : 20*n+4]}
	noise := ints.Slice(5*n+1, 5*n+3, 2)
	c := &Context{G: g, B: b, S: s, positions: maxPosition, swaps: -1,
		leaves: map[*Param]*autograd.Value{}, tables: map[*RopeTable][2]*autograd.Value{},
		windows: map[int]*autograd.Value{},
		batch: &Batch{Batch: data.Batch{B: b, S: s, IDs: part(0).Int32s(), Labels: part(1).Int32s(),
			Positions: part(2).Int32s()},
			Keys: keys.Int32s(), Divisor: divisor.Float32s(), Noise: noise.Int32s()}}
	c.ids, c.labels = c.G.Input("input_ids", part(0)), c.G.Input("labels", part(1))
	c.pos, c.keys = c.G.Input("positions", part(2)), c.G.Input("keys", keys)
	c.divisor, c.noise = c.G.Input("divisor", divisor), c.G.Input("noise", noise)
	return c, nil
}

// cheap says that the operations recorded from now on, until costly, cost little, except
// for linear layers at the end: their values are computed again for the backward pass. So
// the output of a norm or of an activation, as large as what it is computed from, need
// not be kept for the linear layers that read it; those are not computed again, because
// nothing in the backward pass needs their outputs. What Checkpoint is of is computed
// again as a whole.
func (c *Context) cheap() {
	c.costly()
	if !c.again {
		c.leave = c.G.Checkpoint()
	}
}

// costly ends what cheap began, if anything is left of that.
func (c *Context) costly() {
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
}

// aside records operations, until the function that it returns is called, as what cheap
// does not make cheap: what they read is kept.
func (c *Context) aside() (back func()) {
	if c.leave == nil {
		return func() {}
	}
	return c.G.Aside()
}

// watched returns what is called in the place of a site's kernel.
func (c *Context) watched(k core.Kernel) core.Kernel {
	if c.Watch == nil {
		return k
	}
	return c.Watch(k)
}

// Batch returns the memory that the graph reads.
func (c *Context) Batch() *Batch { return c.batch }

// T returns the number of tokens.
func (c *Context) T() int { return c.B * c.S }

// Err returns the first error of a module.
func (c *Context) Err() error { return c.err }

func (c *Context) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// scaleOf returns the values of what a weight in int8 or NF4 is multiplied by.
func (c *Context) scaleOf(p *Param) (of []*autograd.Value) {
	if p.Tensor.DType == core.NF4 {
		of = append(of, c.G.Input(p.Name+".absmax", p.absmax).Named(&p.absmaxContent))
	}
	return append(of, c.G.Input(p.Name+".scale", p.scale).Named(&p.scaleContent))
}

// Leaf returns the value of a parameter or of a buffer in this graph.
func (c *Context) Leaf(p *Param) *autograd.Value {
	if c.leaves[p] == nil {
		leaf := c.G.Param
		if p.buffer || p.Frozen {
			leaf = c.G.Input
		}
		c.leaves[p] = leaf(p.Name, p.Tensor).Named(&p.content)
	}
	return c.leaves[p]
}
