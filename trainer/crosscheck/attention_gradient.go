package crosscheck

import (
	"github.com/seed98097648/tune/internal/simd"
)

// compareGradients judges dq of a block, and adds the block's part to dk and dv.
func (a *heads) compareGradients(b *block) {
	d := a.f.HeadDim
	ds := a.scores(1, b)
	a.multiply(func(h, g int) simd.Product { // dp = dy v^T
		return simd.Product{M: b.n, N: b.width, K: d, A: a.rows(a.dy, b.from, h, a.f.Heads),
			B: a.rows(a.v, b.lo, g, a.f.KVHeads), TransB: true,
			C: ds[h*b.n*b.width:], StrideC: b.width}
	})
	// What ds is, for each key, in relation to p: its error, and that of sums of it.
	relative := make([]float64, len(b.e))
	simd.Parallel(len(b.e), max(1, grain/max(b.width, 1)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			t, h := b.from+r%b.n, r/b.n
			first, end := int(a.keys[2*t])-b.lo, int(a.keys[2*t+1])-b.lo
			row := ds[r*b.width:][:b.width]
			if first >= end {
				clear(row)
				continue
			}
			clear(row[:first])
			clear(row[end:])
			p, row := b.p[r*b.width:][first:end], row[first:end]
			var mean float64
			for j, x := range p {
				mean += float64(x) * float64(row[j])
			}
			simd.SoftmaxGrad(row, p, row, float32(mean), float32(a.scale))
			size := norm2(a.dy[(t*a.f.Heads+h)*d:][:d]) * b.most[h/a.group].v * a.scale
			relative[r] = size * (2*b.e[r] + 4*rounding(d) + 4*rounding(a.terms()) + few)
		}
	})
	dq := make([]float32, len(b.e)*d)
	a.multiply(func(h, g int) simd.Product {
		return simd.Product{M: b.n, N: d, K: b.width, A: simd.Matrix{Data: ds[h*b.n*b.width:], Stride: b.width},
			B: a.rows(a.k, b.lo, g, a.f.KVHeads),
			C: dq[h*b.n*d:], StrideC: d}
	})
	a.see(b, a.c.Output("dq").Float32s(), dq, func(r int, s sizes) float64 { return within(1, 2*relative[r]*s.kInf) })
	a.addKeys(b, ds, relative)
}

// lost is what a probability may be that one of the two takes for 0, divided by few, the
// least that the terms of limits are relative to.
const lost = tiny / few

// terms is the most that a gradient of a key is a sum of.
func (a *heads) terms() int { return a.c.Tokens() * a.group }

// addKeys adds a block's part to the gradients of keys and values, and to their limits.
func (a *heads) addKeys(b *block, ds []float32, relative []float64) {
	d, kv := a.f.HeadDim, a.f.KVHeads
	for member := range a.group {
		ps := make([]simd.Product, 0, 2*kv)
		for g := range kv {
			h := g*a.group + member
			add := func(left, right, sum []float32) {
				ps = append(ps, simd.Product{M: b.width, N: d, K: b.n, A: simd.Matrix{Data: left[h*b.n*b.width:], Stride: b.width},
					TransA: true,
					B:      a.rows(right, b.from, h, a.f.Heads), C: sum[min((b.lo*kv+g)*d, len(sum)):], StrideC: kv * d, Accumulate: true})
			}
			add(ds, a.q, a.dk)
			add(b.p, a.dy, a.dv)
		}
		simd.Multiply(ps...)
	}
	a.addLimits(b, relative)
}

// addLimits adds to the limits of keys and values what a block's queries may be wrong by:
// for each, a size times p, and what may be lost besides.
func (a *heads) addLimits(b *block, relative []float64) {
	d, kv, n := a.f.HeadDim, a.f.KVHeads, a.group*b.n
	of, sums, rest := make([]float32, 2*len(b.e)), make([]float32, 2*kv*b.width), make([]float64, 2*kv)
	for r := range b.e {
		at := ((b.from+r%b.n)*a.f.Heads + r/b.n) * d
		ofK := 2 * relative[r] * normInf(a.q[at:][:d])
		ofV := (b.e[r] + 2*rounding(a.terms())) * normInf(a.dy[at:][:d])
		of[2*r], of[2*r+1] = float32(ofK), float32(ofV)
		g := r / n
		rest[2*g], rest[2*g+1] = rest[2*g]+lost*ofK, rest[2*g+1]+lost*ofV
	}
	ps := make([]simd.Product, kv)
	for g := range ps { // the rows of a key head's queries follow each other
		ps[g] = simd.Product{M: b.width, N: 2, K: n, A: simd.Matrix{Data: b.p[g*n*b.width:], Stride: b.width}, TransA: true,
			B: dense(of[2*g*n:], 2), C: sums[2*g*b.width:], StrideC: 2}
	}
	simd.Multiply(ps...)
	for i := range kv * b.width {
		j, g := i/kv, i%kv
		sum, at := sums[2*(g*b.width+j):], b.lo*kv+i
		a.dkMax[at] += float64(sum[0]) + rest[2*g]
		a.dvMax[at] += float64(sum[1]) + rest[2*g+1]
	}
}

// compareKeys judges dk and dv, when all queries have been added.
func (a *heads) compareKeys() {
	d, dk, dv := a.f.HeadDim, a.c.Output("dk").Float32s(), a.c.Output("dv").Float32s()
	seeElements(a.found[1:2], dk, a.dk, d, func(r int) float64 { return within(1, a.dkMax[r]) })
	seeElements(a.found[2:3], dv, a.dv, d, func(r int) float64 { return within(1, a.dvMax[r]) })
}
