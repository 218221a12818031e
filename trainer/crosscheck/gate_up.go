package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// gateUp is one call of gate_up_swiglu. Gate and up are computed as they are in the plain form: what they
// go through is no product. The gradients of products are compared along random directions. All that is as large as
// gate and up is computed for some tokens at a time.
type gateUp struct {
	c                  *core.Call
	tokens, dim, width int
	parts              []gateUpPart
	norms              []float64    // of the rows of both weights [2I]
	room               [4][]float32 // for gate and up of a block, and what gradients returns
}

// gateUpPart is a weight, whose products are columns of both from first on.
type gateUpPart struct {
	name        string
	matrix      simd.Matrix
	first, rows int
}

// gateUpBlock is what n tokens from one on have.
type gateUpBlock struct {
	from, n int
	both    []float32 // gate and up [n, 2I], the call's own if it has them
	lost    []float64 // of each token: times norms, it is what gate and up err by at most
}

// gateUpTokens returns how many tokens are compared at a time where gate and up have so many elements together.
func gateUpTokens(wide int) int { return max(64, 1<<19/wide) }

func gateUpSwiGLU(c *core.Call) []worst {
	f := c.Facts
	m := &gateUp{c: c, tokens: c.Tokens(), dim: f.Dim, width: f.Intermediate}
	names := []string{"gate", "up"}
	if f.Layout == core.Packed {
		names = []string{"gate_up"}
	}
	for i, name := range names {
		p := gateUpPart{name: name, rows: 2 * m.width / len(names), first: i * m.width}
		var norms []float64
		p.matrix, norms = storedWeight(c, name)
		m.parts, m.norms = append(m.parts, p), append(m.norms, norms...)
	}
	if c.Pass == core.Forward {
		return m.forward()
	}
	return m.backward()
}

// each calls f for all blocks of tokens.
func (m *gateUp) each(f func(b gateUpBlock)) {
	step := gateUpTokens(2 * m.width)
	for from := 0; from < m.tokens; from += step {
		f(m.block(from, min(step, m.tokens-from)))
	}
}

// block computes gate and up of some tokens, unless the call has them: nothing was lost on the way to these.
// An element has errors of at most 2*rounding of the product of the norms.
func (m *gateUp) block(from, n int) gateUpBlock {
	b, wide := gateUpBlock{from: from, n: n, lost: make([]float64, n)}, 2*m.width
	if m.c.Pass == core.Backward && !m.c.Facts.Recompute {
		b.both = m.c.Input("gate_up_out").Float32s()[from*wide:][:n*wide]
		return b
	}
	x := m.c.Input("x").Float32s()[from*m.dim:][:n*m.dim]
	b.both = m.roomFor(0, n)
	var products []simd.Product
	for _, p := range m.parts {
		products = append(products, simd.Product{M: n, N: p.rows, K: m.dim, A: dense(x, m.dim), B: p.matrix,
			TransB: true, C: b.both[p.first:], StrideC: wide})
	}
	simd.Multiply(products...)
	for t := range b.lost {
		b.lost[t] = 2 * rounding(m.dim) * norm2(x[t*m.dim:][:m.dim])
	}
	return b
}

// roomFor returns room for as much as gate and up of n tokens, with anything in it; the first block is the largest.
func (m *gateUp) roomFor(i, n int) []float32 {
	if m.room[i] == nil {
		m.room[i] = make([]float32, n*2*m.width)
	}
	return m.room[i][:n*2*m.width]
}

// forward judges gate_up_out, if there is one, and y as what swiglu makes of that, once it is found right.
func (m *gateUp) forward() []worst {
	found := named("y")
	if !m.c.Facts.Recompute {
		found = append(found, named("gate_up_out")...)
	}
	m.each(func(b gateUpBlock) { m.compare(b, found) })
	return []worst{found[len(found)-1], found[0]} // gate_up_out comes first
}

// compare judges the outputs of the forward pass for some tokens.
func (m *gateUp) compare(b gateUpBlock, found []worst) {
	of, wide := b.both, 2*m.width
	var got []float32
	if len(found) > 1 {
		got = m.c.Output("gate_up_out").Float32s()[b.from*wide:]
		of = got
	}
	y := m.c.Output("y").Float32s()
	each(found, b.n, 8*m.width, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			lost, row := b.lost[t], of[t*wide:][:wide]
			if got != nil {
				for i, v := range row {
					at := t*wide + i
					found[1].see(b.from*wide+at, float64(v), float64(b.both[at]), within(lost, m.norms[i]))
				}
				lost = 0
			}
			for i := range m.width {
				g, u := float64(row[i]), float64(row[m.width+i])
				ofGate, ofUp := lost*m.norms[i], lost*m.norms[m.width+i]
				// silu has slopes of at most 1.1, and is at most its argument.
				limit := within(few, math.Abs(g*u)) + 1.1*ofGate*(math.Abs(u)+ofUp) + math.Abs(g)*ofUp
				at := (b.from+t)*m.width + i
				found[0].see(at, float64(y[at]), g/(1+math.Exp(-g))*u, limit)
			}
		}
	})
}

// gateUpGradients is what the products of the backward pass come to along the directions, and what bounds them.
type gateUpGradients struct {
	x, thin       []float32 // of the call, and along the directions [T, directions]; nil where weights are frozen
	of            []float32 // both weights along the directions [2I, directions]
	dx, dweights  []float32 // [T, directions] and [2I, directions]
	limits        []float64 // of dx [T]
	sizes, losses []float64 // squares of the norms of columns [2I]
}

// backward judges dx = dg gate + du up, dgate = dg^T x and dup = du^T x.
func (m *gateUp) backward() []worst {
	wide, r := 2*m.width, random(m.dim)
	g := &gateUpGradients{of: make([]float32, wide*directions), dx: make([]float32, m.tokens*directions),
		limits: make([]float64, m.tokens)}
	for _, p := range m.parts {
		copy(g.of[p.first*directions:], along(p.matrix, p.rows, m.dim, r))
	}
	if !m.c.Facts.Frozen {
		g.x, g.dweights = m.c.Input("x").Float32s(), make([]float32, wide*directions)
		g.thin = along(dense(g.x, m.dim), m.tokens, m.dim, r)
		g.sizes, g.losses = make([]float64, wide), make([]float64, wide)
	}
	m.each(func(b gateUpBlock) { m.add(b, g) })
	dx := named("dx")
	seeRows(dx, m.c.Output("dx"), m.dim, r, g.dx, func(t int) float64 { return g.limits[t] })
	if g.x == nil {
		return dx
	}
	found, most, xNorm := dx, few+relative(m.tokens, m.dim), norm2(g.x)
	for _, p := range m.parts {
		dweight := named("d" + p.name)
		seeRows(dweight, m.c.Output("d"+p.name), m.dim, r, g.dweights[p.first*directions:][:p.rows*directions],
			func(n int) float64 {
				return within(most, math.Sqrt(g.sizes[p.first+n])*xNorm) + math.Sqrt(g.losses[p.first+n])*xNorm
			})
		found = append(found, dweight...)
	}
	return found
}

// add adds what some tokens have in the gradients.
func (m *gateUp) add(b gateUpBlock, g *gateUpGradients) {
	d, size, lost := m.gradients(b)
	wide, all := 2*m.width, whole(m.norms)
	copy(g.dx[b.from*directions:], along(dense(d, wide), b.n, wide, g.of))
	most := few + relative(wide, m.dim)
	for t := range b.n {
		g.limits[b.from+t] = within(most, norm2(size[t*wide:][:wide])*all) + norm2(lost[t*wide:][:wide])*all
	}
	if g.x == nil {
		return
	}
	simd.Multiply(simd.Product{M: wide, N: directions, K: b.n, A: dense(d, wide), TransA: true,
		B: dense(g.thin[b.from*directions:], directions), C: g.dweights, StrideC: directions, Accumulate: true})
	sizes := columnNorms(core.FromFloat32(size, b.n, wide), b.n, wide)
	losses := columnNorms(core.FromFloat32(lost, b.n, wide), b.n, wide)
	for i := range wide {
		g.sizes[i] += sizes[i] * sizes[i]
		g.losses[i] += losses[i] * losses[i]
	}
}

// gradients returns those of gate and up of a block [n, 2I], the sizes of their terms, and what they err by because
// gate and up do: silu's slope is at most 1.1 and changes by at most 1/2.
func (m *gateUp) gradients(b gateUpBlock) (d, size, lost []float32) {
	width := m.width
	d, size, lost = m.roomFor(1, b.n), m.roomFor(2, b.n), m.roomFor(3, b.n)
	dy := m.c.Input("dy").Float32s()[b.from*width:]
	simd.Parallel(b.n, max(1, grain/(8*width)), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			for i := range width {
				at := t*2*width + i
				g, u, dyi := float64(b.both[at]), float64(b.both[at+width]), float64(dy[t*width+i])
				s, most := 1/(1+math.Exp(-g)), math.Abs(dyi)
				ofGate, ofUp := b.lost[t]*m.norms[i], b.lost[t]*m.norms[width+i]
				d[at], d[at+width] = float32(dyi*u*(s+g*s*(1-s))), float32(dyi*g*s)
				size[at], size[at+width] = float32(most*math.Abs(u)*(1+math.Abs(g))), float32(most*math.Abs(g))
				lost[at], lost[at+width] = float32(most*(0.5*ofGate*(math.Abs(u)+ofUp)+1.1*ofUp)), float32(1.1*most*ofGate)
			}
		}
	})
	return d, size, lost
}
