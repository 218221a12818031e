package moeexperts

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// expert holds the weights of one expert, or their gradients: gate and up [I,D],
// down [D,I].
type expert[F opdef.Float] struct{ gate, up, down []F }

// routing says which expert each assignment goes to and with what weight. Assignment a
// is choice a%K of token a/K.
type routing[F opdef.Float] struct {
	ids     []int32 // [T*K]
	weights []F     // [T*K]
	order   []int   // assignments sorted by expert, stably: row r of gate_up_out is order[r]
}

func runMoE[F opdef.Float](c *core.Call) {
	r := newRouting(c.Input("expert_ids").Int32s(), opdef.Values[F](c.Input("routing_weights")))
	x := opdef.Values[F](c.Input("x"))
	read := func(e int) expert[F] {
		gate, up, down := expertTensors(c.Facts, c.Inputs, "", e)
		return expert[F]{opdef.Values[F](gate), opdef.Values[F](up), opdef.Values[F](down)}
	}
	if c.Pass == core.Forward {
		y, gateUp := experts(c.Facts, x, r, read)
		opdef.Store(c.Output("y"), y)
		opdef.Store(c.Output("gate_up_out"), gateUp)
		return
	}
	write := func(e int, d expert[F]) {
		if c.Facts.Frozen {
			return
		}
		gate, up, down := expertTensors(c.Facts, c.Outputs, "d", e)
		opdef.Store(gate, d.gate)
		opdef.Store(up, d.up)
		opdef.Store(down, d.down)
	}
	dx, dweights := expertsGradient(c.Facts, opdef.Values[F](c.Input("dy")), x, r,
		opdef.Values[F](c.Input("gate_up_out")), read, write)
	opdef.Store(c.Output("dx"), dx)
	opdef.Store(c.Output("drouting_weights"), dweights)
}

func newRouting[F opdef.Float](ids []int32, weights []F) routing[F] {
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
func experts[F opdef.Float](f core.Facts, x []F, r routing[F], weights func(e int) expert[F]) (y, gateUp []F) {
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
			g, u := opdef.Product(w.gate, xt), opdef.Product(w.up, xt)
			for i := range I {
				g[i], u[i] = opdef.Rounded(f.DType, g[i]), opdef.Rounded(f.DType, u[i])
			}
			gateUp = append(append(gateUp, g...), u...)
			for i, v := range opdef.Product(w.down, opdef.SwiGLU(g, u)) {
				yt[i] += r.weights[a] * v
			}
		}
	}
	return y, gateUp
}

// expertsGradient returns dx [T,D] and the gradient of the routing weights [T*K], and
// gives each expert's weight gradients to write; those of an expert without token are
// zero.
func expertsGradient[F opdef.Float](f core.Facts, dy, x []F, r routing[F], gateUp []F,
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

				h, v := opdef.SwiGLU(g, u), make([]F, I)
				opdef.AddTransposed(v, w.down, dyt)
				dweights[a] = opdef.Dot(h, v)
				opdef.AddOuter(d.down, opdef.Times(r.weights[a], dyt), h)
				dg, du := opdef.SwiGLUGradient(opdef.Times(r.weights[a], v), g, u)
				opdef.AddOuter(d.gate, dg, xt)
				opdef.AddOuter(d.up, du, xt)
				opdef.AddTransposed(dxt, w.gate, dg)
				opdef.AddTransposed(dxt, w.up, du)
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

// expertSums are the squares of all that moe_experts adds up.
type expertSums struct {
	*opdef.Inputs
	x, dy, routing       []float64
	y, dx, drouting      opdef.Squares
	gateUp               opdef.Squares   // in the order of gate_up_out
	dgate, dup, ddown    []opdef.Squares // of each expert
	gate, up, down       []float64       // of the expert whose turn it is
	g, u, gTerms, uTerms []float64       // of the assignment
}

func expertTerms(in *opdef.Inputs, output string) []float64 {
	f := in.Facts
	D, I, ids := f.Dim, f.Intermediate, in.Named["expert_ids"][0].Int32s()
	s := &expertSums{Inputs: in, x: in.Wide("x"), dy: in.Wide("dy"), routing: in.Wide("routing_weights"),
		g: make([]float64, I), u: make([]float64, I), gTerms: make([]float64, I), uTerms: make([]float64, I)}
	s.y, s.dx, s.drouting = make(opdef.Squares, len(s.x)), make(opdef.Squares, len(s.x)), make(opdef.Squares, len(ids))
	for e := range f.Experts {
		gate, up, down := expertTensors(f, func(name string) []core.Tensor { return in.Named[name] }, "", e)
		s.gate, s.up, s.down = opdef.Values[float64](gate), opdef.Values[float64](up), opdef.Values[float64](down)
		for _, sums := range []*[]opdef.Squares{&s.dgate, &s.dup, &s.ddown} {
			*sums = append(*sums, make(opdef.Squares, I*D))
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
		s.g[i], s.u[i] = opdef.Dot(s.gate[i*D:][:D], xt), opdef.Dot(s.up[i*D:][:D], xt)
		s.gTerms[i], s.uTerms[i] = opdef.TermsOf(s.gate[i*D:][:D], xt), opdef.TermsOf(s.up[i*D:][:D], xt)
		h := opdef.SiluTerms(s.g[i]) * s.gTerms[i] * max(math.Abs(s.u[i]), s.uTerms[i])
		for c := range D {
			s.y.Add(t*D+c, s.routing[a]*s.down[c*len(s.g)+i]*h)
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
		s.drouting.Add(a, silu*s.u[i]*v) // h . v: the terms of v, and those of h
		s.drouting.Add(a, opdef.SiluTerms(g)*s.gTerms[i]*s.u[i]*sum)
		s.drouting.Add(a, silu*s.uTerms[i]*sum)
		dg, du := p*v*s.u[i]*opdef.SiluTerms(g), p*v*silu
		for c := range D {
			s.dx.Add(t*D+c, s.gate[i*D+c]*dg)
			s.dx.Add(t*D+c, s.up[i*D+c]*du)
			s.dgate[e].Add(i*D+c, dg*xt[c])
			s.dup[e].Add(i*D+c, du*xt[c])
			s.ddown[e].Add(c*I+i, p*dyt[c]*silu*s.u[i])
		}
	}
}

// named returns the terms of an output.
func (s *expertSums) named(output string) []float64 {
	one := map[string]opdef.Squares{"y": s.y, "gate_up_out": s.gateUp, "dx": s.dx, "drouting_weights": s.drouting}
	if one[output] != nil {
		return one[output].Roots()
	}
	name, only, _ := strings.Cut(output, "[") // as in dgate[2], of one expert
	var all opdef.Squares
	for e := range s.dgate {
		if only != "" && only != fmt.Sprintf("%d]", e) {
			continue
		}
		own := map[string][]opdef.Squares{"dgate": {s.dgate[e]}, "dup": {s.dup[e]}, "ddown": {s.ddown[e]},
			"dgate_up": {s.dgate[e], s.dup[e]}}
		all = append(all, slices.Concat(own[name]...)...)
	}
	return all.Roots()
}
