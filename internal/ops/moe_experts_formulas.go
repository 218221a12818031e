package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
)

// expert holds the weights of one expert, or their gradients: gate and up [I,D],
// down [D,I].
type expert[F float] struct{ gate, up, down []F }

// routing says which expert each assignment goes to and with what weight. Assignment a
// is choice a%K of token a/K.
type routing[F float] struct {
	ids     []int32 // [T*K]
	weights []F     // [T*K]
	order   []int   // assignments sorted by expert, stably: row r of gate_up_out is order[r]
}

func runMoE[F float](c *core.Call) {
	r := newRouting(c.Input("expert_ids").Int32s(), values[F](c.Input("routing_weights")))
	x := values[F](c.Input("x"))
	read := func(e int) expert[F] {
		gate, up, down := expertTensors(c.Facts, c.Inputs, "", e)
		return expert[F]{values[F](gate), values[F](up), values[F](down)}
	}
	if c.Pass == core.Forward {
		y, gateUp := experts(c.Facts, x, r, read)
		store(c.Output("y"), y)
		store(c.Output("gate_up_out"), gateUp)
		return
	}
	write := func(e int, d expert[F]) {
		if c.Facts.Frozen {
			return
		}
		gate, up, down := expertTensors(c.Facts, c.Outputs, "d", e)
		store(gate, d.gate)
		store(up, d.up)
		store(down, d.down)
	}
	dx, dweights := expertsGradient(c.Facts, values[F](c.Input("dy")), x, r, values[F](c.Input("gate_up_out")), read,
		write)
	store(c.Output("dx"), dx)
	store(c.Output("drouting_weights"), dweights)
}

func newRouting[F float](ids []int32, weights []F) routing[F] {
	r := routing[F]{ids: ids, weights: weights}
	for a := range ids {
		r.order = append(r.order, a)
	}
	slices.SortStableFunc(r.order, func(a, b int) int { return int(ids[a]) - int(ids[b]) })
	return r
}

// expertTensors finds the matrices of expert e, in either layout, among the tensors
// whose names start with prefix.
func expertTensors(f core.Facts, named func(string) []core.Tensor, prefix string, e int) (gate, up, down core.Tensor) {
	I, D := f.Intermediate, f.Dim
	if f.Layout == core.PerExpert {
		return named(prefix + "gate")[e], named(prefix + "up")[e], named(prefix + "down")[e]
	}
	both, downs := named(prefix + "gate_up")[0], named(prefix + "down")[0]
	at := e * 2 * I * D
	return both.Slice(at, at+I*D, I, D), both.Slice(at+I*D, at+2*I*D, I, D), downs.Slice(e*I*D, (e+1)*I*D, D, I)
}

// experts returns y [T,D] and the products gate_up_out [T*K,2I], rows in expert order.
func experts[F float](f core.Facts, x []F, r routing[F], weights func(e int) expert[F]) (y, gateUp []F) {
	D, I := f.Dim, f.Intermediate
	y = make([]F, len(x))
	rows := r.order
	for e := range f.Experts {
		var mine []int
		mine, rows = r.split(rows, e)
		if len(mine) == 0 {
			continue
		}
		w := weights(e)
		for _, a := range mine {
			t := a / f.TopK
			xt, yt := x[t*D:][:D], y[t*D:][:D]
			g, u := product(w.gate, xt), product(w.up, xt)
			for i := range I {
				g[i], u[i] = rounded(f.DType, g[i]), rounded(f.DType, u[i])
			}
			gateUp = append(append(gateUp, g...), u...)
			for i, v := range product(w.down, swiglu(g, u)) {
				yt[i] += r.weights[a] * v
			}
		}
	}
	return y, gateUp
}

// expertsGradient returns dx [T,D] and the gradient of the routing weights [T*K], and
// gives each expert's weight gradients to write; those of an expert without token are
// zero.
func expertsGradient[F float](f core.Facts, dy, x []F, r routing[F], gateUp []F,
	weights func(e int) expert[F], write func(e int, d expert[F])) (dx, dweights []F) {
	D, I := f.Dim, f.Intermediate
	dx, dweights = make([]F, len(x)), make([]F, len(r.ids))
	rows := r.order
	for e := range f.Experts {
		d := expert[F]{make([]F, I*D), make([]F, I*D), make([]F, I*D)}
		var mine []int
		mine, rows = r.split(rows, e)
		if len(mine) > 0 {
			w := weights(e)
			for _, a := range mine {
				t := a / f.TopK
				xt, dyt, dxt := x[t*D:][:D], dy[t*D:][:D], dx[t*D:][:D]
				g, u := gateUp[:I], gateUp[I:2*I]
				gateUp = gateUp[2*I:]

				h, v := swiglu(g, u), make([]F, I)
				addTransposed(v, w.down, dyt)
				dweights[a] = dot(h, v)
				addOuter(d.down, times(r.weights[a], dyt), h)
				dg, du := swigluGradient(times(r.weights[a], v), g, u)
				addOuter(d.gate, dg, xt)
				addOuter(d.up, du, xt)
				addTransposed(dxt, w.gate, dg)
				addTransposed(dxt, w.up, du)
			}
		}
		write(e, d)
	}
	return dx, dweights
}

// split cuts the assignments of expert e off the front of rows.
func (r routing[F]) split(rows []int, e int) (mine, rest []int) {
	n := 0
	for n < len(rows) && int(r.ids[rows[n]]) == e {
		n++
	}
	return rows[:n], rows[n:]
}

// product returns m v, m [len(m)/len(v), len(v)].
func product[F float](m, v []F) []F {
	out := make([]F, len(m)/len(v))
	for i := range out {
		out[i] = dot(m[i*len(v):][:len(v)], v)
	}
	return out
}

// addTransposed adds m^T v to out, m [len(v), len(out)].
func addTransposed[F float](out, m, v []F) {
	for i, vi := range v {
		for j, w := range m[i*len(out):][:len(out)] {
			out[j] += vi * w
		}
	}
}

// addOuter adds a b^T to m [len(a), len(b)].
func addOuter[F float](m, a, b []F) {
	for i, ai := range a {
		for j, bj := range b {
			m[i*len(b)+j] += ai * bj
		}
	}
}

func times[F float](p F, v []F) []F {
	out := make([]F, len(v))
	for i, x := range v {
		out[i] = p * x
	}
	return out
}

// expertSums are the squares of all that moe_experts adds up.
type expertSums struct {
	*Inputs
	x, dy, routing       []float64
	y, dx, drouting      squares
	gateUp               squares   // in the order of gate_up_out
	dgate, dup, ddown    []squares // of each expert
	gate, up, down       []float64 // of the expert whose turn it is
	g, u, gTerms, uTerms []float64 // of the assignment
}

func (in *Inputs) expertTerms(output string) []float64 {
	f := in.Facts
	D, I, ids := f.Dim, f.Intermediate, in.Named["expert_ids"][0].Int32s()
	s := &expertSums{Inputs: in, x: in.wide("x"), dy: in.wide("dy"), routing: in.wide("routing_weights"),
		g: make([]float64, I), u: make([]float64, I), gTerms: make([]float64, I), uTerms: make([]float64, I)}
	s.y, s.dx, s.drouting = make(squares, len(s.x)), make(squares, len(s.x)), make(squares, len(ids))
	for e := range f.Experts {
		gate, up, down := expertTensors(f, func(name string) []core.Tensor { return in.Named[name] }, "", e)
		s.gate, s.up, s.down = values[float64](gate), values[float64](up), values[float64](down)
		for _, sums := range []*[]squares{&s.dgate, &s.dup, &s.ddown} {
			*sums = append(*sums, make(squares, I*D))
		}
		for a, id := range ids {
			if int(id) == e {
				s.forward(a)
				s.backward(a, e)
			}
		}
	}
	return s.named(output)
}

// forward adds the terms of assignment a to y and gate_up_out.
func (s *expertSums) forward(a int) {
	D, t := s.Facts.Dim, a/s.Facts.TopK
	xt := s.x[t*D:][:D]
	for i := range s.g {
		s.g[i], s.u[i] = dot(s.gate[i*D:][:D], xt), dot(s.up[i*D:][:D], xt)
		s.gTerms[i], s.uTerms[i] = termsOf(s.gate[i*D:][:D], xt), termsOf(s.up[i*D:][:D], xt)
		h := siluTerms(s.g[i]) * s.gTerms[i] * max(math.Abs(s.u[i]), s.uTerms[i])
		for c := range D {
			s.y.add(t*D+c, s.routing[a]*s.down[c*len(s.g)+i]*h)
		}
	}
	for _, terms := range [][]float64{s.gTerms, s.uTerms} {
		for _, v := range terms {
			s.gateUp = append(s.gateUp, v*v)
		}
	}
}

// backward adds the terms of assignment a, which goes to expert e, to the gradients.
func (s *expertSums) backward(a, e int) {
	D, I, t, p := s.Facts.Dim, s.Facts.Intermediate, a/s.Facts.TopK, s.routing[a]
	xt, dyt := s.x[t*D:][:D], s.dy[t*D:][:D]
	for i, g := range s.g {
		v, sum := 0.0, 0.0
		for c := range D {
			v, sum = math.Hypot(v, s.down[c*I+i]*dyt[c]), sum+s.down[c*I+i]*dyt[c]
		}
		silu := g / (1 + math.Exp(-g))
		s.drouting.add(a, silu*s.u[i]*v) // h . v: the terms of v, and those of h
		s.drouting.add(a, siluTerms(g)*s.gTerms[i]*s.u[i]*sum)
		s.drouting.add(a, silu*s.uTerms[i]*sum)
		dg, du := p*v*s.u[i]*siluTerms(g), p*v*silu
		for c := range D {
			s.dx.add(t*D+c, s.gate[i*D+c]*dg)
			s.dx.add(t*D+c, s.up[i*D+c]*du)
			s.dgate[e].add(i*D+c, dg*xt[c])
			s.dup[e].add(i*D+c, du*xt[c])
			s.ddown[e].add(c*I+i, p*dyt[c]*silu*s.u[i])
		}
	}
}

// named returns the terms of an output.
func (s *expertSums) named(output string) []float64 {
	switch output {
	case "y":
		return s.y.roots()
	case "gate_up_out":
		return s.gateUp.roots()
	case "dx":
		return s.dx.roots()
	case "drouting_weights":
		return s.drouting.roots()
	}
	var all squares
	for e := range s.dgate {
		for name, x := range map[string]squares{"dgate": s.dgate[e], "dup": s.dup[e], "ddown": s.ddown[e]} {
			if output == fmt.Sprintf("%s[%d]", name, e) || output == name && s.Facts.Layout == core.PerExpert ||
				output == name && name == "ddown" {
				all = append(all, x...)
			}
		}
		if output == "dgate_up" {
			all = append(append(all, s.dgate[e]...), s.dup[e]...)
		}
	}
	return all.roots()
}
