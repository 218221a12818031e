package crosscheck

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// experts is one call of moe_experts with packed weights: rows of gate_up_out, which are
// assignments of a token to an expert, lie in the order of the experts and, within one, of
// the tokens. The forward pass is computed as it is in the plain form, an expert at a time.
// The backward pass goes through v = down^T dy, which is the product that it needs, and
// has all the others compared along random directions.
type experts struct {
	c            *core.Call
	f            core.Facts
	order        []int // the assignments in that order; a is choice a%K of token a/K
	first        []int // of each expert and the end [E+1]
	weights      []float32
	x            []float32
	gateUp, down core.Tensor
	gateUpOut    []float32
	found        []worst
	sum          []float32 // y, or dx along the directions
	limit        []float64 // of its rows
}

func moeExperts(c *core.Call) []worst {
	f := c.Facts
	m := &experts{c: c, f: f, weights: c.Input("routing_weights").Float32s(), x: c.Input("x").Float32s(),
		gateUp: c.Input("gate_up"), down: c.Input("down"), limit: make([]float64, c.Tokens())}
	m.sort(c.Input("expert_ids").Int32s())
	if c.Pass == core.Forward {
		m.gateUpOut, m.sum = c.Output("gate_up_out").Float32s(), make([]float32, len(m.x))
		m.found = named("gate_up_out", "y")
		for e := range f.Experts {
			if n := m.first[e+1] - m.first[e]; n > 0 {
				m.forward(e, m.first[e], n)
			}
		}
		seeElements(m.found[1:], c.Output("y").Float32s(), m.sum, f.Dim,
			func(t int) float64 { return within(1, m.limit[t]) })
		return m.found
	}
	m.gateUpOut = c.Input("gate_up_out").Float32s()
	return m.backward()
}

// sort orders the assignments by expert.
func (m *experts) sort(ids []int32) {
	m.first, m.order = make([]int, m.f.Experts+1), make([]int, len(ids))
	for _, e := range ids {
		m.first[e+1]++
	}
	for e := range m.f.Experts {
		m.first[e+1] += m.first[e]
	}
	next := slices.Clone(m.first)
	for a, e := range ids {
		m.order[next[e]] = a
		next[e]++
	}
}

// tokens returns the rows of x that n assignments have.
func (m *experts) tokens(x []float32, from, n int) []float32 {
	d := m.f.Dim
	out := make([]float32, n*d)
	for i, a := range m.order[from:][:n] {
		copy(out[i*d:], x[a/m.f.TopK*d:][:d])
	}
	return out
}

// forward judges the rows of gate_up_out of an expert, and adds what it makes of them, once
// they are found right, to y. A row of products has errors of at most 2*rounding of the
// product of the norms.
func (m *experts) forward(e, from, n int) {
	d, width := m.f.Dim, m.f.Intermediate
	x, want := m.tokens(m.x, from, n), make([]float32, n*2*width)
	simd.Multiply(simd.Product{M: n, N: 2 * width, K: d, A: dense(x, d), B: operand(m.gateUp, e*2*width, d), TransB: true,
		C: want, StrideC: 2 * width})
	norms, got := rowNorms(m.gateUp, e*2*width, 2*width, d), m.gateUpOut[from*2*width:]
	h, sizes := make([]float32, n*width), make([]float64, n)
	each(m.found[:1], n, 2*width, func(lo, hi int, found []worst) {
		for i := lo; i < hi; i++ {
			size := 2 * rounding(d) * norm2(x[i*d:][:d])
			for j := range 2 * width {
				k := i*2*width + j
				found[0].see(from*2*width+k, float64(got[k]), float64(want[k]), within(size, norms[j]))
			}
			sizes[i] = m.activate(h[i*width:][:width], got[i*2*width:])
		}
	})
	z := make([]float32, n*d)
	simd.Multiply(simd.Product{M: n, N: d, K: width, A: dense(h, width), B: operand(m.down, e*d, width), TransB: true,
		C: z, StrideC: d})
	most := slices.Max(rowNorms(m.down, e*d, d, width))
	for i, a := range m.order[from:][:n] {
		t := a / m.f.TopK
		simd.Axpy(m.weights[a], z[i*d:][:d], m.sum[t*d:][:d])
		m.limit[t] += math.Abs(float64(m.weights[a])) * sizes[i] * most * (2*rounding(width) + few + 2*rounding(m.f.TopK))
	}
}

// activate writes silu(gate)*up, and returns the size of its terms, gate*up.
func (m *experts) activate(h, gateUp []float32) float64 {
	width, sum := m.f.Intermediate, 0.0
	for i := range h {
		g, u := float64(gateUp[i]), float64(gateUp[width+i])
		h[i] = float32(g / (1 + math.Exp(-g)) * u)
		sum += g * u * g * u
	}
	return math.Sqrt(sum)
}
