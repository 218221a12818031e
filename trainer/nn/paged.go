package nn

import (
	"context"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// pagedSites makes the sites that attention has over a cache. Body.Paged offers them.
func (a *Attention) pagedSites(b *Builder, path string) {
	f := a.cfg
	add := func(op core.Op, facts core.Facts) *site {
		facts.DType = core.Float32
		s := &site{path: path + "." + string(op), op: op, facts: facts, use: b.use}
		b.cached = append(b.cached, s)
		return s
	}
	a.store = add(core.ReshapeAndCache, core.Facts{HeadDim: f.HeadDim, KVHeads: f.KVHeads})
	a.paged = add(core.PagedAttention, core.Facts{HeadDim: f.HeadDim, Heads: f.Heads, KVHeads: f.KVHeads,
		Window: f.Window, Scale: 1 / math.Sqrt(float64(f.HeadDim))})
}

// Paged has the model offer what attention is over a cache of blocks of so many tokens: sites of reshape_and_cache
// and of paged_attention beside each of attention. Call it before the plan. A kernel that is in place for blocks of
// another size stays there, and graphs of a cache of this one do not use it.
func (b *Body) Paged(size int) {
	var sites []core.Site
	next := b.cached
	for _, s := range b.sites {
		if s.Op == core.ReshapeAndCache || s.Op == core.PagedAttention {
			continue
		}
		sites = append(sites, s)
		if s.Op != core.Attention {
			continue
		}
		for _, own := range next[:2] {
			if own.kernel == nil {
				own.facts.BlockSize = size
			}
			plain := ""
			if own.op == core.PagedAttention {
				plain = s.Plain
			}
			sites = append(sites, core.Site{Path: own.path, Op: own.op, Facts: own.facts, Hook: own, Plain: plain})
		}
		next = next[2:]
	}
	b.sites = sites
}

// pagedInput says to kernels what the next run of a graph reads: B sequences of at most M blocks, T tokens.
type pagedInput struct{ tables, queries, lens, slots core.Tensor }

// newPagedInput has its memory from the graph.
func newPagedInput(g *autograd.Graph, sequences, places, tokens int) (*pagedInput, error) {
	n := sequences*places + 2*sequences + tokens
	block, err := g.Alloc(4 * n)
	if err != nil {
		return nil, fmt.Errorf("nn: tables of %d sequences of %d blocks: %w", sequences, places, err)
	}
	rest := core.Tensor{DType: core.Int32, Shape: core.Shape{n}, Data: block}
	next := func(shape ...int) core.Tensor {
		size := core.Shape(shape).Elems()
		x := rest.Slice(0, size, shape...)
		rest = rest.Slice(size, rest.Elems(), rest.Elems()-size)
		return x
	}
	return &pagedInput{tables: next(sequences, places), queries: next(sequences), lens: next(sequences),
		slots: next(tokens)}, nil
}

// fill says what pieces are read.
func (p *pagedInput) fill(pieces []Piece, size int) {
	tables, queries, lens, slots := p.tables.Int32s(), p.queries.Int32s(), p.lens.Int32s(), p.slots.Int32s()
	places, t := p.tables.Shape[1], 0
	clear(queries)
	clear(lens)
	for b, u := range pieces {
		copy(tables[b*places:][:places], u.table)
		queries[b], lens[b] = int32(len(u.IDs)), int32(u.Len()+len(u.IDs))
		for i := range u.IDs {
			j := u.Len() + i
			slots[t] = u.table[j/size]*int32(size) + int32(j%size)
			t++
		}
	}
	for ; t < len(slots); t++ {
		slots[t] = -1
	}
}

// kernelFor returns the kernel of a site for blocks of so many tokens, nil without one.
func (s *site) kernelFor(c *Context, size int) core.Kernel {
	if s.kernel == nil || s.facts.BlockSize != size {
		return nil
	}
	return c.watched(s.kernel)
}

// pagedOp is the operation that calls a kernel of a site over a cache. set gives the call its tensors; out are those
// of the operation.
func (c *Context) pagedOp(s *site, k core.Kernel, out autograd.Spec,
	set func(call *core.Call, in, out []core.Tensor)) autograd.Op {
	call, err := core.NewCall(s.op, core.Forward, s.facts)
	if err != nil {
		c.fail(fmt.Errorf("nn: %s: %w", s.path, err))
		return autograd.Op{Name: string(s.op), Outputs: []autograd.Spec{out}}
	}
	call.Site = s.path
	return autograd.Op{Name: string(s.op), Kernel: k.Info().Name, Outputs: []autograd.Spec{out},
		Forward: func(ctx context.Context, in, out []core.Tensor) error {
			set(call, in, out)
			return core.Run(ctx, k, call)
		}}
}
