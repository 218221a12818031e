package blaslinear

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

const (
	// scoresAtOnce is about how many scores are there at once, those of a block of queries of all heads.
	scoresAtOnce = 1 << 21
	// blockRows is the most queries of a block. Keys that none of them sees cost nothing, so that more would
	// spare less of what a causal mask hides.
	blockRows = 128
)

// attention implements core.Kernel for the op attention, by products of blocks of queries with all the keys
// that any of them sees:
//
//	P = softmax(Q K^T / sqrt(C)), of each row the keys that it sees;  Y = P V
//	dV += P^T dY;  dP = dY V^T;  dS = P * (dP - rowsum(P * dP)) / sqrt(C);  dQ = dS K;  dK += dS^T Q
//
// Backward computes P again, and the sums of its rows with it: lse and y, rounded as they are, would leave a
// trace where exact sums cancel, as in a row that sees one key.
type attention struct {
	multiply vector.Multiplier
	scores   []float32 // [heads, rows, keys] of a block
	dscores  []float32
}

// Info implements core.Kernel.
func (*attention) Info() core.Info {
	return core.Info{Op: core.Attention, Summary: "softmax(q k^T) v in blocks",
		DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports implements core.Kernel.
func (a *attention) Supports(f core.Facts) error { return a.Info().Supports(f) }

// Forward computes y and lse.
func (a *attention) Forward(ctx context.Context, c *core.Call) error {
	x := headsOf(c)
	y, lse := c.Output("y").Float32s(), c.Output("lse").Float32s()
	return x.blocks(ctx, func(b block) {
		p := vector.Grow(&a.scores, x.Heads*b.rows()*b.keys())
		a.probabilities(b, p, lse)
		a.multiply.Run(b.products(func(h, g int) vector.Product { return b.times(p, h, x.v, g, y) })...)
	})
}

// Backward computes dq, dk and dv.
func (a *attention) Backward(ctx context.Context, c *core.Call) error {
	x := headsOf(c)
	dy, dq := c.Input("dy").Float32s(), c.Output("dq").Float32s()
	dk, dv := c.Output("dk").Float32s(), c.Output("dv").Float32s()
	clear(dk)
	clear(dv)
	return x.blocks(ctx, func(b block) {
		n := b.rows() * b.keys()
		p, ds := vector.Grow(&a.scores, x.Heads*n), vector.Grow(&a.dscores, x.Heads*n)
		a.probabilities(b, p, nil)
		a.multiply.Run(b.products(func(h, g int) vector.Product { return b.across(dy, h, x.v, g, ds) })...)
		b.each(func(h, t, first, end int) {
			row := b.row(p, h, t)[first:end]
			d := b.row(ds, h, t)
			clear(d[:first])
			clear(d[end:])
			vector.SoftmaxGrad(d[first:end], row, d[first:end], vector.Dot(row, d[first:end]), x.scale)
		})
		a.multiply.Run(b.products(func(h, g int) vector.Product { return b.times(ds, h, x.k, g, dq) })...)
		for _, sum := range []struct{ left, right, to []float32 }{{ds, x.q, dk}, {p, dy, dv}} {
			// The heads of a group add to the same rows, one after the other.
			added := func(h, g int) vector.Product { return b.added(sum.left, h, sum.right, g, sum.to) }
			for _, one := range b.products(added) {
				a.multiply.Run(one)
			}
		}
	})
}

// probabilities computes P of a block, zero where a query does not see a key, and lse, unless that is nil.
func (a *attention) probabilities(b block, p, lse []float32) {
	a.multiply.Run(b.products(func(h, g int) vector.Product { return b.across(b.q, h, b.k, g, p) })...)
	b.each(func(h, t, first, end int) {
		row := b.row(p, h, t)
		clear(row[:first])
		clear(row[end:])
		seen, of := row[first:end], float32(0)
		if first < end {
			high := b.scale * vector.Max(seen)
			shift := high
			if math.IsInf(float64(shift), -1) {
				shift = 0 // every exponential is 0, and not NaN
			}
			total := vector.ExpSum(seen, seen, b.scale, shift)
			if total == 0 {
				total = math.NaN()
			}
			vector.Scale(seen, seen, float32(1/total))
			of = float32(float64(high) + math.Log(total))
		}
		if lse != nil {
			lse[t*b.Heads+h] = of
		}
	})
}

// heads are a call's facts and inputs.
type heads struct {
	core.Facts
	ranges  []int32 // [T,2]: the keys of each query
	scale   float32
	q, k, v []float32
}

func headsOf(c *core.Call) *heads {
	scale := float32(1 / math.Sqrt(float64(c.Facts.HeadDim)))
	return &heads{Facts: c.Facts, ranges: c.Input("keys").Int32s(), scale: scale,
		q: c.Input("q").Float32s(), k: c.Input("k").Float32s(), v: c.Input("v").Float32s()}
}

// block is queries [from, to) of all heads, and the least range of keys that holds those that they see.
type block struct {
	*heads
	from, to   int
	first, end int
}

// blocks calls do for one block after the other.
func (x *heads) blocks(ctx context.Context, do func(b block)) error {
	T := len(x.ranges) / 2
	for from := 0; from < T && ctx.Err() == nil; {
		b := block{heads: x, from: from, to: from}
		for ; b.to < T && b.rows() < blockRows; b.to++ {
			wider := b
			wider.add(b.to)
			if b.to > from && (b.rows()+1)*wider.keys()*x.Heads > scoresAtOnce {
				break
			}
			b = wider
		}
		do(b)
		from = b.to
	}
	return ctx.Err()
}

// add widens the keys by those of query t.
func (b *block) add(t int) {
	switch first, end := int(b.ranges[2*t]), int(b.ranges[2*t+1]); {
	case first >= end:
	case b.first == b.end:
		b.first, b.end = first, end
	default:
		b.first, b.end = min(b.first, first), max(b.end, end)
	}
}

func (b block) rows() int { return b.to - b.from }
func (b block) keys() int { return b.end - b.first }

// row returns that of query t in scores of the block.
func (b block) row(scores []float32, h, t int) []float32 {
	return scores[(h*b.rows()+t-b.from)*b.keys():][:b.keys()]
}

// each calls f for every query of every head, on all cores, with the keys that it sees, counted from b.first.
func (b block) each(f func(h, t, first, end int)) {
	vector.Parallel(b.Heads*b.rows(), 1<<14/(b.keys()+1)+1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			t := b.from + i%b.rows()
			first, end := int(b.ranges[2*t])-b.first, int(b.ranges[2*t+1])-b.first
			if first >= end {
				first, end = 0, 0
			}
			f(i/b.rows(), t, first, end)
		}
	})
}

// products makes one for each head h, whose keys are those of head g.
func (b block) products(product func(h, g int) vector.Product) []vector.Product {
	var all []vector.Product
	for h := range b.Heads {
		all = append(all, product(h, h/(b.Heads/b.KVHeads)))
	}
	return all
}

// queries returns the rows of head h of x [T,Heads,C] that belong to the block.
func (b block) queries(x []float32, h int) vector.Matrix {
	return vector.Matrix{Data: x[(b.from*b.Heads+h)*b.HeadDim:], Stride: b.Heads * b.HeadDim}
}

// seen returns the rows of head g of x [T,KVHeads,C] that the block sees, none of which may be there.
func (b block) seen(x []float32, g int) vector.Matrix {
	return vector.Matrix{Data: x[min(len(x), (b.first*b.KVHeads+g)*b.HeadDim):], Stride: b.KVHeads * b.HeadDim}
}

func (b block) of(scores []float32, h int) vector.Matrix {
	return vector.Matrix{Data: scores[h*b.rows()*b.keys():], Stride: b.keys()}
}

// across is scores = x y^T of head h of queries and head g of keys.
func (b block) across(x []float32, h int, y []float32, g int, scores []float32) vector.Product {
	return vector.Product{M: b.rows(), N: b.keys(), K: b.HeadDim, A: b.queries(x, h), B: b.seen(y, g), TransB: true,
		C: b.of(scores, h).Data, StrideC: b.keys()}
}

// times is to = scores x, in head h of queries.
func (b block) times(scores []float32, h int, x []float32, g int, to []float32) vector.Product {
	rows := b.queries(to, h)
	return vector.Product{M: b.rows(), N: b.HeadDim, K: b.keys(), A: b.of(scores, h), B: b.seen(x, g),
		C: rows.Data, StrideC: rows.Stride}
}

// added is to += scores^T x, in head g of keys.
func (b block) added(scores []float32, h int, x []float32, g int, to []float32) vector.Product {
	rows := b.seen(to, g)
	return vector.Product{M: b.keys(), N: b.HeadDim, K: b.rows(), A: b.of(scores, h), TransA: true, B: b.queries(x, h),
		C: rows.Data, StrideC: rows.Stride, Accumulate: true}
}
