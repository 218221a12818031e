package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// pagedCall is one call of paged_attention: y is judged by what is said of heads, with the keys and the values
// that a query sees, which are the only ones that are read.
type pagedCall struct {
	f              core.Facts
	q, k, v, y     []float32
	tables         []int32
	places         int
	sequence, last []int // of each token, and its position; negative for one that sees nothing
}

func pagedAttention(c *core.Call) []worst {
	tables, lens := c.Input("block_tables"), c.Input("seq_lens").Int32s()
	p := &pagedCall{f: c.Facts, q: c.Input("q").Float32s(), k: c.Input("k_cache").Float32s(),
		v: c.Input("v_cache").Float32s(), y: c.Output("y").Float32s(), tables: tables.Int32s(), places: tables.Shape[1]}
	for b, n := range c.Input("query_lens").Int32s() {
		for i := range int(n) {
			p.sequence, p.last = append(p.sequence, b), append(p.last, int(lens[b])-int(n)+i)
		}
	}
	for len(p.last) < c.Tokens() {
		p.sequence, p.last = append(p.sequence, 0), append(p.last, -1)
	}
	found, most := named("y"), 1
	for _, n := range lens {
		most = max(most, int(n))
	}
	each(found, c.Tokens()*p.f.Heads, most*p.f.HeadDim, func(lo, hi int, found []worst) {
		scores, want := make([]float32, most), make([]float32, p.f.HeadDim)
		for r := lo; r < hi; r++ {
			p.compare(r/p.f.Heads, r%p.f.Heads, scores, want, found)
		}
	})
	return found
}

// compare judges y of a head of a token.
func (p *pagedCall) compare(t, h int, scores, want []float32, found []worst) {
	d, first := p.f.HeadDim, 0
	if p.f.Window > 0 {
		first = max(0, p.last[t]+1-p.f.Window)
	}
	n := p.last[t] + 1 - first
	clear(want)
	limit, row := 0.0, (t*p.f.Heads+h)*d
	if n > 0 {
		var kNorm, vInf float64
		q := p.q[row:][:d]
		scores = scores[:n]
		for j := range scores {
			k := p.k[p.at(t, h, first+j):][:d]
			scores[j], kNorm = simd.Dot(q, k), math.Max(kNorm, norm2(k))
		}
		scale := float32(p.f.Scale)
		sum := simd.ExpSum(scores, scores, scale, scale*simd.Max(scores))
		simd.Scale(scores, scores, float32(1/sum))
		for j, w := range scores {
			v := p.v[p.at(t, h, first+j):][:d]
			simd.Axpy(w, v, want)
			vInf = math.Max(vInf, normInf(v))
		}
		e := norm2(q)*kNorm*p.f.Scale*(2*rounding(d)+4*unit) + few
		limit = within(math.Expm1(2*e)+2*rounding(n), vInf)
	}
	for i, w := range want {
		found[0].see(row+i, float64(p.y[row+i]), float64(w), limit)
	}
}

// at is where the row of a head's key or value begins, of token j of the sequence of token t.
func (p *pagedCall) at(t, h, j int) int {
	size := p.f.BlockSize
	slot := int(p.tables[p.sequence[t]*p.places+j/size])*size + j%size
	return (slot*p.f.KVHeads + h/(p.f.Heads/p.f.KVHeads)) * p.f.HeadDim
}

// reshapeAndCache compares what was to be stored, to the bit of its value.
func reshapeAndCache(c *core.Call) []worst {
	width, slots := c.Facts.KVHeads*c.Facts.HeadDim, c.Input("slots").Int32s()
	found := named("k_cache", "v_cache")
	for i, name := range []string{"k", "v"} {
		x, cache := c.Input(name).Float32s(), c.Output(name+"_cache").Float32s()
		for t, slot := range slots {
			if slot < 0 {
				continue
			}
			for j, want := range x[t*width:][:width] {
				at := int(slot)*width + j
				found[i].see(at, float64(cache[at]), float64(want), 0)
			}
		}
	}
	return found
}
