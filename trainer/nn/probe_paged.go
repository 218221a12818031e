package nn

import (
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
)

// probeContext is how many tokens a sequence has before those of the probe.
const probeContext = 512

// probePaged measures attention over a cache, or what is stored there before it: of tokens that follow others of one
// sequence, of which there are as many as the positions leave room for.
func probePaged(p *prober) []*autograd.Value {
	f, in := p.site.facts, p.inputs
	if f.Heads == 0 { // reshape_and_cache does not say
		f.Heads = f.KVHeads
	}
	before := max(0, min(probeContext, p.positions-p.T()))
	c := NewCache(in.mem, f.BlockSize, (before+p.T()+f.BlockSize-1)/f.BlockSize)
	in.caches = append(in.caches, c)
	a := &Attention{cfg: AttentionConfig{Heads: f.Heads, KVHeads: f.KVHeads, HeadDim: f.HeadDim, Window: f.Window},
		store: &site{}, paged: &site{}}
	if p.site.op == core.PagedAttention {
		a.paged = p.site
	} else {
		a.store = p.site
	}
	sequence := c.NewSequence()
	err := sequence.Reserve(before + p.T())
	if err == nil {
		sequence.tokens = make([]int32, before)
		p.batch.paged, err = newPagedInput(p.G, 1, len(sequence.table), p.T())
	}
	if err != nil {
		p.fail(err)
		return []*autograd.Value{p.before(1)}
	}
	c.pieces = []Piece{{sequence, make([]int32, p.T())}}
	p.batch.paged.fill(c.pieces, c.size)
	y := c.attend(p.Context, a, p.before(f.Heads, f.HeadDim), p.before(f.KVHeads, f.HeadDim),
		p.before(f.KVHeads, f.HeadDim))
	if l := c.layers[a]; l != nil && l.block != nil {
		rng := rand.New(rand.NewPCG(5, 6))
		keys, values := l.tensors(c.size, f.KVHeads)
		scatter(rng, keys)
		scatter(rng, values)
	}
	return []*autograd.Value{p.after(y)}
}
