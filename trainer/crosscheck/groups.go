package crosscheck

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// qkv judges each of the three layers as linear is, and dx, the sum of what each has for it.
func qkv(c *core.Call) (found []worst, err error) {
	var layers []*layer
	for _, name := range []string{"q", "k", "v"} {
		layers = append(layers, newLayer(c, name, name+"_weight", name+"_bias"))
	}
	if c.Pass == core.Forward {
		for _, l := range layers {
			found = append(found, l.forward()...)
		}
		return found, nil
	}
	tokens, dim := c.Tokens(), c.Facts.Dim
	r, sum, limits := random(dim), make([]float32, tokens*directions), make([]float64, tokens)
	var x, thin []float32
	if !c.Facts.Frozen {
		x = c.Input("x").Float32s()
		thin = along(dense(x, dim), tokens, dim, r)
	}
	for _, l := range layers {
		dy := c.Input("d" + l.y).Float32s()
		simd.Add(sum, sum, along(dense(dy, l.out), tokens, l.out, along(l.matrix, l.out, dim, r)))
		for t := range limits {
			limits[t] += norm2(dy[t*l.out:][:l.out]) * l.weightNorm
		}
		if x != nil {
			columns := columnNorms(core.FromFloat32(dy, tokens, l.out), tokens, l.out)
			found = append(found, l.weightGradients(dy, thin, r, columns, norm2(x))...)
		}
	}
	dx, most := named("dx"), relative(layers[0].out+layers[1].out+layers[2].out, dim)
	seeRows(dx, c.Output("dx"), dim, r, sum, func(t int) float64 { return within(most, limits[t]) })
	return append(dx, found...), nil
}

// gateUp is one call of gate_up_swiglu. Gate and up are computed as they are in the plain form: what they
// go through is no product. The gradients of products are compared along random directions.
type gateUp struct {
	c                  *core.Call
	tokens, dim, width int
	parts              []gateUpPart
	both               []float32 // gate and up [T, 2I], the call's own if it has them
	norms              []float64 // of the rows of both weights [2I]
	lost               []float64 // of each token: times norms, it is what gate and up err by at most
}

// gateUpPart is a weight, whose products are columns of both from first on.
type gateUpPart struct {
	name        string
	matrix      simd.Matrix
	first, rows int
}

func gateUpSwiGLU(c *core.Call) ([]worst, error) {
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
	m.lost = make([]float64, m.tokens)
	if c.Pass == core.Backward && !f.Recompute {
		m.both = c.Input("gate_up_out").Float32s() // nothing was lost on the way to them
	} else {
		m.products()
	}
	if c.Pass == core.Forward {
		return m.forward(), nil
	}
	return m.backward(), nil
}

// products computes gate and up. An element has errors of at most 2*rounding of the product of the norms.
func (m *gateUp) products() {
	x := m.c.Input("x").Float32s()
	m.both = make([]float32, m.tokens*2*m.width)
	var products []simd.Product
	for _, p := range m.parts {
		products = append(products, simd.Product{M: m.tokens, N: p.rows, K: m.dim, A: dense(x, m.dim), B: p.matrix,
			TransB: true, C: m.both[p.first:], StrideC: 2 * m.width})
	}
	simd.Multiply(products...)
	for t := range m.lost {
		m.lost[t] = 2 * rounding(m.dim) * norm2(x[t*m.dim:][:m.dim])
	}
}

// forward judges gate_up_out, if there is one, and y as what swiglu makes of that, once it is found right.
func (m *gateUp) forward() []worst {
	found, of := named("y"), m.both
	var got []float32
	if !m.c.Facts.Recompute {
		found, got = append(found, named("gate_up_out")...), m.c.Output("gate_up_out").Float32s()
		of = got
	}
	y := m.c.Output("y").Float32s()
	each(found, m.tokens, 8*m.width, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			lost, row := m.lost[t], of[t*2*m.width:][:2*m.width]
			if got != nil {
				for i, v := range row {
					at := t*2*m.width + i
					found[1].see(at, float64(v), float64(m.both[at]), within(lost, m.norms[i]))
				}
				lost = 0
			}
			for i := range m.width {
				g, u := float64(row[i]), float64(row[m.width+i])
				ofGate, ofUp := lost*m.norms[i], lost*m.norms[m.width+i]
				// silu has slopes of at most 1.1, and is at most its argument.
				limit := within(few, math.Abs(g*u)) + 1.1*ofGate*(math.Abs(u)+ofUp) + math.Abs(g)*ofUp
				found[0].see(t*m.width+i, float64(y[t*m.width+i]), g/(1+math.Exp(-g))*u, limit)
			}
		}
	})
	return []worst{found[len(found)-1], found[0]} // gate_up_out comes first
}

// backward judges dx = dg gate + du up, dgate = dg^T x and dup = du^T x.
func (m *gateUp) backward() []worst {
	d, size, lost := m.gradients()
	wide, r := 2*m.width, random(m.dim)
	of := make([]float32, wide*directions)
	for _, p := range m.parts {
		copy(of[p.first*directions:], along(p.matrix, p.rows, m.dim, r))
	}
	dx, all := named("dx"), whole(m.norms)
	want, most := along(dense(d, wide), m.tokens, wide, of), few+relative(wide, m.dim)
	seeRows(dx, m.c.Output("dx"), m.dim, r, want, func(t int) float64 {
		return within(most, norm2(size[t*wide:][:wide])*all) + norm2(lost[t*wide:][:wide])*all
	})
	if m.c.Facts.Frozen {
		return dx
	}
	x := m.c.Input("x").Float32s()
	thin, xNorm := along(dense(x, m.dim), m.tokens, m.dim, r), norm2(x)
	sums := make([]float32, wide*directions)
	simd.Multiply(simd.Product{M: wide, N: directions, K: m.tokens, A: dense(d, wide), TransA: true,
		B: dense(thin, directions), C: sums, StrideC: directions})
	sizes := columnNorms(core.FromFloat32(size, m.tokens, wide), m.tokens, wide)
	losses := columnNorms(core.FromFloat32(lost, m.tokens, wide), m.tokens, wide)
	most = few + relative(m.tokens, m.dim)
	found := dx
	for _, p := range m.parts {
		dweight := named("d" + p.name)
		seeRows(dweight, m.c.Output("d"+p.name), m.dim, r, sums[p.first*directions:][:p.rows*directions], func(n int) float64 {
			return within(most, sizes[p.first+n]*xNorm) + losses[p.first+n]*xNorm
		})
		found = append(found, dweight...)
	}
	return found
}

// gradients returns those of gate and up [T, 2I], the sizes of their terms, and what they err by because
// gate and up do: silu's slope is at most 1.1 and changes by at most 1/2.
func (m *gateUp) gradients() (d, size, lost []float32) {
	n, width := m.tokens*2*m.width, m.width
	d, size, lost = make([]float32, n), make([]float32, n), make([]float32, n)
	dy := m.c.Input("dy").Float32s()
	simd.Parallel(m.tokens, max(1, grain/(8*width)), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			for i := range width {
				at := t*2*width + i
				g, u, dyi := float64(m.both[at]), float64(m.both[at+width]), float64(dy[t*width+i])
				s, most := 1/(1+math.Exp(-g)), math.Abs(dyi)
				ofGate, ofUp := m.lost[t]*m.norms[i], m.lost[t]*m.norms[width+i]
				d[at], d[at+width] = float32(dyi*u*(s+g*s*(1-s))), float32(dyi*g*s)
				size[at], size[at+width] = float32(most*math.Abs(u)*(1+math.Abs(g))), float32(most*math.Abs(g))
				lost[at], lost[at+width] = float32(most*(0.5*ofGate*(math.Abs(u)+ofUp)+1.1*ofUp)), float32(1.1*most*ofGate)
			}
		}
	})
	return d, size, lost
}
