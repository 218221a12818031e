package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// queries is how many queries are compared at a time: their scores with all the keys that
// one of them sees are in memory together.
const queries = 64

// heads is one call of attention: q and y [T,H,C], k and v [T,KV,C], keys [T,2]. The size
// of a sum of products is bounded by the norms of its vectors, which is cheaper than to
// sum magnitudes. For query i of a head and the keys that it sees,
//
//	s = q.k/sqrt(C)     an error of e = |q|*max|k|/sqrt(C) * (2*rounding(C) + 4*unit) + few,
//	                    and so p = exp(s - lse) one of exp(2e) - 1, relative to p
//	y = sum of p*v      whose terms add up to at most max|v|, because p does to 1
//	ds = p*(dp - D)     dp = dy.v and D, its mean under p, are at most |dy|*max|v|
//
// and the sums over queries take the size of each query's terms from p, too.
type heads struct {
	c          *core.Call
	f          core.Facts
	group      int // query heads of a key head
	q, k, v    []float32
	dy         []float32 // nil for forward
	keys       []int32
	scale      float64
	kNorm      []float64 // of each k [T*KV]
	vNorm      []float64
	kInf, vInf []float64 // largest magnitudes of them

	dk, dv       []float32 // sums over the queries so far
	dkMax, dvMax []float64 // the limits of their elements [T*KV]
	found        []worst
	room         [2][]float32 // for the scores of a block, and their gradients
}

func attention(c *core.Call) []worst {
	f, tokens := c.Facts, c.Tokens()
	a := &heads{c: c, f: f, group: f.Heads / f.KVHeads, scale: 1 / math.Sqrt(float64(f.HeadDim)),
		keys: c.Input("keys").Int32s(),
		q:    c.Input("q").Float32s(), k: c.Input("k").Float32s(), v: c.Input("v").Float32s(), found: named("y", "lse")}
	a.kNorm, a.kInf = a.norms(a.k)
	a.vNorm, a.vInf = a.norms(a.v)
	if c.Pass == core.Backward {
		a.found, a.dy = named("dq", "dk", "dv"), c.Input("dy").Float32s()
		a.dk, a.dv = make([]float32, len(a.k)), make([]float32, len(a.v))
		a.dkMax, a.dvMax = make([]float64, tokens*f.KVHeads), make([]float64, tokens*f.KVHeads)
	}
	for from := 0; from < tokens; from += queries {
		a.compare(from, min(from+queries, tokens))
	}
	if a.dy != nil {
		a.compareKeys()
	}
	return a.found
}

// norms returns those of each head of k or v.
func (a *heads) norms(x []float32) (norm, inf []float64) {
	d, n := a.f.HeadDim, len(x)/a.f.HeadDim
	norm, inf = make([]float64, n), make([]float64, n)
	simd.Parallel(n, max(1, grain/d), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			norm[i], inf[i] = norm2(x[i*d:][:d]), normInf(x[i*d:][:d])
		}
	})
	return norm, inf
}

// block is what the queries [from, to) of all heads and the keys [lo, hi) that any of them
// sees come to; scores of query i of head h begin at (h*n + i)*width.
type block struct {
	from, n, lo, width int
	p                  []float32
	e                  []float64 // the relative error of p of each head of each query [H*n]
	most               []sizes   // of what each key head has in the block [KV]
}

// sizes are the largest norms of keys and values.
type sizes struct{ k, v, kInf, vInf float64 }

// compare judges some queries, and adds their part to the gradients of keys and values.
func (a *heads) compare(from, to int) {
	b := block{from: from, n: to - from, lo: math.MaxInt}
	end := 0
	for t := from; t < to; t++ {
		if first, last := int(a.keys[2*t]), int(a.keys[2*t+1]); first < last {
			b.lo, end = min(b.lo, first), max(end, last)
		}
	}
	b.lo = min(b.lo, end)
	b.width = end - b.lo
	b.p, b.e, b.most = a.scores(0, &b), make([]float64, a.f.Heads*b.n), make([]sizes, a.f.KVHeads)
	for i := b.lo * a.f.KVHeads; i < end*a.f.KVHeads; i++ {
		m := &b.most[i%a.f.KVHeads]
		m.k, m.v = math.Max(m.k, a.kNorm[i]), math.Max(m.v, a.vNorm[i])
		m.kInf, m.vInf = math.Max(m.kInf, a.kInf[i]), math.Max(m.vInf, a.vInf[i])
	}
	a.multiply(func(h, g int) simd.Product {
		return simd.Product{M: b.n, N: b.width, K: a.f.HeadDim, A: a.rows(a.q, from, h, a.f.Heads),
			B: a.rows(a.k, b.lo, g, a.f.KVHeads), TransB: true,
			C: b.p[h*b.n*b.width:], StrideC: b.width}
	})
	each(a.found, a.f.Heads*b.n, b.width, func(lo, hi int, found []worst) {
		for r := lo; r < hi; r++ {
			a.softmax(&b, r, found)
		}
	})
	if a.dy == nil {
		a.compareOutputs(&b)
		return
	}
	a.compareGradients(&b)
}

// scores returns room for those of a block, with anything in it.
func (a *heads) scores(i int, b *block) []float32 {
	n := a.f.Heads * b.n * b.width
	if len(a.room[i]) < n {
		a.room[i] = make([]float32, n+n/2)
	}
	return a.room[i][:n]
}

// rows are those of head h of x from a token on.
func (a *heads) rows(x []float32, token, h, of int) simd.Matrix {
	at := min((token*of+h)*a.f.HeadDim, len(x))
	return simd.Matrix{Data: x[at:], Stride: of * a.f.HeadDim}
}

// multiply makes a product for each query head h and its key head g.
func (a *heads) multiply(product func(h, g int) simd.Product) {
	ps := make([]simd.Product, a.f.Heads)
	for h := range ps {
		ps[h] = product(h, h/a.group)
	}
	simd.Multiply(ps...)
}

// softmax turns the scores of row r into probabilities, says how exact they are, and judges
// lse in the forward pass.
func (a *heads) softmax(b *block, r int, found []worst) {
	h, t := r/b.n, b.from+r%b.n
	row := b.p[r*b.width:][:b.width]
	first, end := int(a.keys[2*t])-b.lo, int(a.keys[2*t+1])-b.lo
	at := t*a.f.Heads + h
	if first >= end {
		clear(row)
		if a.dy == nil {
			found[1].see(at, float64(a.c.Output("lse").Float32s()[at]), 0, 0)
		}
		return
	}
	clear(row[:first])
	clear(row[end:])
	row = row[first:end]
	scale := float32(a.scale)
	e := norm2(a.q[at*a.f.HeadDim:][:a.f.HeadDim])*b.most[h/a.group].k*a.scale*(2*rounding(a.f.HeadDim)+4*unit) + few
	b.e[r] = math.Expm1(2 * e)
	high := scale * simd.Max(row)
	sum := simd.ExpSum(row, row, scale, high)
	simd.Scale(row, row, float32(1/sum))
	if a.dy == nil {
		lse := float64(high) + math.Log(sum)
		found[1].see(at, float64(a.c.Output("lse").Float32s()[at]), lse,
			within(1, e+2*rounding(len(row))+2*unit*(math.Abs(lse)+math.Log(sum))))
	}
}

// compareOutputs judges y.
func (a *heads) compareOutputs(b *block) {
	d, y := a.f.HeadDim, a.c.Output("y").Float32s()
	want := make([]float32, a.f.Heads*b.n*d)
	a.multiply(func(h, g int) simd.Product {
		return simd.Product{M: b.n, N: d, K: b.width, A: simd.Matrix{Data: b.p[h*b.n*b.width:], Stride: b.width},
			B: a.rows(a.v, b.lo, g, a.f.KVHeads),
			C: want[h*b.n*d:], StrideC: d}
	})
	a.see(b, y, want, func(r int, s sizes) float64 { return within(b.e[r]+2*rounding(b.width), s.vInf) })
}

// see judges the rows of the first tensor, y or dq, by a limit for each.
func (a *heads) see(b *block, got, want []float32, limit func(row int, s sizes) float64) {
	d := a.f.HeadDim
	each(a.found, len(b.e), d, func(lo, hi int, found []worst) {
		for r := lo; r < hi; r++ {
			at, most := ((b.from+r%b.n)*a.f.Heads+r/b.n)*d, limit(r, b.most[r/b.n/a.group])
			for i := range d {
				found[0].see(at+i, float64(got[at+i]), float64(want[r*d+i]), most)
			}
		}
	})
}
