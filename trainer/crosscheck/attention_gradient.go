package crosscheck

import (
	"github.com/seed98097648/tune/internal/simd"
)

// compareGradients judges dq of a block, and adds the block's part to dk and dv.
func (a *heads) compareGradients(b *block) {
	d := a.f.HeadDim
	ds := make([]float32, len(b.p))
	a.multiply(func(h, g int) simd.Product { // dp = dy v^T
		return simd.Product{M: b.n, N: b.width, K: d, A: a.rows(a.dy, b.from, h, a.f.Heads), B: a.rows(a.v, b.lo, g, a.f.KVHeads), TransB: true,
			C: ds[h*b.n*b.width:], StrideC: b.width}
	})
	// What ds is, for each key, in relation to p: its error, and that of sums of it.
	relative := make([]float64, len(b.sizes))
	simd.Parallel(len(b.sizes), max(1, grain/max(b.width, 1)), func(lo, hi int) {
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
			size := norm2(a.dy[(t*a.f.Heads+h)*d:][:d]) * b.sizes[r].v * a.scale
			relative[r] = size * (2*b.sizes[r].e + 4*rounding(d) + 4*rounding(a.terms()) + few)
		}
	})
	dq := make([]float32, len(b.sizes)*d)
	a.multiply(func(h, g int) simd.Product {
		return simd.Product{M: b.n, N: d, K: b.width, A: simd.Matrix{Data: ds[h*b.n*b.width:], Stride: b.width}, B: a.rows(a.k, b.lo, g, a.f.KVHeads),
			C: dq[h*b.n*d:], StrideC: d}
	})
	a.see(b, a.c.Output("dq").Float32s(), dq, func(s sizes, r int) float64 { return within(1, 2*relative[r]*s.kInf) })
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
				ps = append(ps, simd.Product{M: b.width, N: d, K: b.n, A: simd.Matrix{Data: left[h*b.n*b.width:], Stride: b.width}, TransA: true,
					B: a.rows(right, b.from, h, a.f.Heads), C: sum[min((b.lo*kv+g)*d, len(sum)):], StrideC: kv * d, Accumulate: true})
			}
			add(ds, a.q, a.dk)
			add(b.p, a.dy, a.dv)
		}
		simd.Multiply(ps...)
	}
	simd.Parallel(kv, 1, func(lo, hi int) {
		for r := lo * a.group * b.n; r < hi*a.group*b.n; r++ {
			h, t := r/b.n, b.from+r%b.n
			at := (t*a.f.Heads + h) * d
			ofK := 2 * relative[r] * normInf(a.q[at:][:d])
			ofV := (b.sizes[r].e + 2*rounding(a.terms())) * normInf(a.dy[at:][:d])
			for j := int(a.keys[2*t]); j < int(a.keys[2*t+1]); j++ {
				i, p := j*kv+h/a.group, float64(b.p[r*b.width+j-b.lo])+lost
				a.dkMax[i] += p * ofK
				a.dvMax[i] += p * ofV
			}
		}
	})
}

// compareKeys judges dk and dv, when all queries have been added.
func (a *heads) compareKeys() {
	d, dk, dv := a.f.HeadDim, a.c.Output("dk").Float32s(), a.c.Output("dv").Float32s()
	each(a.found, len(a.dkMax), d, func(lo, hi int, found []worst) {
		for r := lo; r < hi; r++ {
			ofK, ofV := within(1, a.dkMax[r]), within(1, a.dvMax[r])
			for i := r * d; i < (r+1)*d; i++ {
				found[1].see(i, float64(dk[i]), float64(a.dk[i]), ofK)
				found[2].see(i, float64(dv[i]), float64(a.dv[i]), ofV)
			}
		}
	})
}
