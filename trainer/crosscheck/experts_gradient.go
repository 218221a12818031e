package crosscheck

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// expertGradients is what the backward pass of one expert, of n assignments, comes to. An
// error of v passes on to all that is computed from it; as roundings of different
// assignments have nothing to do with each other, such errors add up as their squares do.
type expertGradients struct {
	x, dy      []float32 // [n, D]
	h, v       []float32 // [n, I]
	d          []float32 // gradient of gate and up [n, 2I]
	size       []float32 // of its terms
	fromV      []float32 // its factors of v, times the norms of dy and x
	hSize      []float64 // norms of the terms of h [n]
	xNorm      []float64
	dyNorm     []float64
	weightNorm float64   // of all of down
	columns    []float64 // norms of the columns of down [I]
}

// backward judges the gradients, an expert at a time.
func (m *experts) backward() []worst {
	f := m.f
	d, width, n := f.Dim, f.Intermediate, len(m.limit)
	r, rh := random(d), random(width)
	m.sum = make([]float32, n*directions)
	weights, gateUp, down := named("drouting_weights"), named("dgate_up"), named("ddown")
	for e := range f.Experts {
		from, n := m.first[e], m.first[e+1]-m.first[e]
		g := m.gradients(e, from, n, weights)
		wr := along(operand(m.gateUp, e*2*width, d), 2*width, d, r)
		all := whole(rowNorms(m.gateUp, e*2*width, 2*width, d))
		dx := along(dense(g.d, 2*width), n, 2*width, wr)
		for i, a := range m.order[from:][:n] {
			t := a / f.TopK
			simd.Add(m.sum[t*directions:][:directions], m.sum[t*directions:][:directions], dx[i*directions:][:directions])
			size := norm2(g.size[i*2*width:][:2*width])
			lost := normInf(g.fromV[i*2*width:][:2*width]) * g.weightNorm / math.Max(g.xNorm[i], tiny)
			m.limit[t] += (size*(few+2*rounding(2*width)+2*rounding(f.TopK)+2*rounding(d)) + lost) * all
		}
		if f.Frozen {
			continue
		}
		at := e * 2 * width
		m.seeExpert(gateUp, m.c.Output("dgate_up").Slice(at*d, (at+2*width)*d, 2*width, d), at, g.d, g.x, r, g.gateUpLimit())
		scaled := make([]float32, n*d)
		for i, a := range m.order[from:][:n] {
			simd.Scale(scaled[i*d:][:d], g.dy[i*d:][:d], m.weights[a])
		}
		limits := columnNorms(core.FromFloat32(scaled, n, d), n, d)
		for c := range limits {
			limits[c] *= whole(g.hSize) * (few + 2*rounding(n) + 2*rounding(width))
		}
		m.seeExpert(down, m.c.Output("ddown").Slice(e*d*width, (e+1)*d*width, d, width), e*d, scaled, g.h, rh, limits)
	}
	dx := named("dx")
	seeRows(dx, m.c.Output("dx"), d, r, m.sum, func(t int) float64 { return within(1, m.limit[t]) })
	return slices.Concat(dx, weights, gateUp, down)
}

// gradients computes those of an expert, and judges those of the routing weights.
func (m *experts) gradients(e, from, n int, found []worst) *expertGradients {
	d, width := m.f.Dim, m.f.Intermediate
	g := &expertGradients{x: m.tokens(m.x, from, n), dy: m.tokens(m.c.Input("dy").Float32s(), from, n),
		h: make([]float32, n*width), v: make([]float32, n*width),
		d: make([]float32, n*2*width), size: make([]float32, n*2*width), fromV: make([]float32, n*2*width),
		hSize: make([]float64, n)}
	g.xNorm, g.dyNorm = rowNorms(core.FromFloat32(g.x, n, d), 0, n, d), rowNorms(core.FromFloat32(g.dy, n, d), 0, n, d)
	g.columns = columnNorms(m.down.Slice(e*d*width, (e+1)*d*width, d, width), d, width)
	g.weightNorm = whole(g.columns)
	simd.Multiply(simd.Product{M: n, N: width, K: d, A: dense(g.dy, d), B: operand(m.down, e*d, width), C: g.v,
		StrideC: width})
	got := m.c.Output("drouting_weights").Float32s()
	each(found, n, 4*width, func(lo, hi int, found []worst) {
		for i := lo; i < hi; i++ {
			a := m.order[from+i]
			out := m.gateUpOut[(from+i)*2*width:]
			g.hSize[i] = m.activate(g.h[i*width:][:width], out)
			v := g.v[i*width:][:width]
			dp := 0.0
			for j, x := range g.h[i*width:][:width] {
				dp += float64(x) * float64(v[j])
			}
			lost := 2 * rounding(d) * g.dyNorm[i]
			found[0].see(a, float64(got[a]), dp, within(g.hSize[i], (few+2*rounding(width))*norm2(v)+lost*g.weightNorm))
			g.activation(i, width, float64(m.weights[a]), lost*g.xNorm[i], out)
		}
	})
	return g
}

// activation computes the gradient of row i of gate_up_out, whose routing weight is p.
func (g *expertGradients) activation(i, width int, p, lost float64, out []float32) {
	d, size, fromV := g.d[i*2*width:][:2*width], g.size[i*2*width:][:2*width], g.fromV[i*2*width:][:2*width]
	for j, v := range g.v[i*width:][:width] {
		gate, up, pv := float64(out[j]), float64(out[width+j]), p*float64(v)
		s := 1 / (1 + math.Exp(-gate))
		ofGate, ofUp := math.Abs(up)*(1+math.Abs(gate)), math.Abs(gate)
		d[j], d[width+j] = float32(pv*up*(s+gate*s*(1-s))), float32(pv*gate*s)
		size[j], size[width+j] = float32(math.Abs(pv)*ofGate), float32(math.Abs(pv)*ofUp)
		fromV[j], fromV[width+j] = float32(math.Abs(p)*ofGate*lost), float32(math.Abs(p)*ofUp*lost)
	}
}

// gateUpLimit returns the limits of the rows of dgate_up.
func (g *expertGradients) gateUpLimit() []float64 {
	n := len(g.xNorm)
	width := len(g.columns)
	limits, lost := columnNorms(core.FromFloat32(g.size, n, 2*width), n, 2*width),
		columnNorms(core.FromFloat32(g.fromV, n, 2*width), n, 2*width)
	for j := range limits {
		limits[j] = limits[j]*whole(g.xNorm)*(few+4*rounding(n)+2*rounding(len(g.x)/max(n, 1))) + lost[j]*g.columns[j%width]
	}
	return limits
}

// seeExpert judges the gradient of an expert's weight, whose rows are left^T right summed
// over the assignments, along the directions r; its first row is row at of the tensor.
func (m *experts) seeExpert(found []worst, got core.Tensor, at int, left, right, r []float32, limits []float64) {
	rows, cols := got.Shape[0], got.Shape[1]
	n := len(left) / rows
	want := make([]float32, rows*directions)
	thin := along(dense(right, cols), n, cols, r)
	simd.Multiply(simd.Product{M: rows, N: directions, K: n, A: dense(left, rows), TransA: true,
		B: dense(thin, directions), C: want, StrideC: directions})
	own := named(found[0].tensor)
	seeRows(own, got, cols, r, want, func(row int) float64 { return within(1, limits[row]) })
	own[0].at += at
	found[0].row = true
	found[0].merge(own[0])
}

// whole is the norm of what has parts of these norms.
func whole(norms []float64) float64 {
	sum := 0.0
	for _, v := range norms {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// columnNorms returns the norms of the columns of a matrix.
func columnNorms(t core.Tensor, rows, cols int) []float64 {
	norms := make([]float64, cols)
	simd.Parallel(cols, max(64, grain/max(rows, 1)), func(lo, hi int) {
		wide, sum := make([]float32, hi-lo), norms[lo:hi]
		for r := range rows {
			t.Load(wide, r*cols+lo)
			for i, v := range wide {
				sum[i] += float64(v) * float64(v)
			}
		}
		for i, v := range sum {
			sum[i] = math.Sqrt(v)
		}
	})
	return norms
}
