package kerneltest

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
)

// expertSums are the squares of all that moe_experts adds up.
type expertSums struct {
	*inputs
	x, dy, routing       []float64
	y, dx, drouting      squares
	gateUp               squares   // in the order of gate_up_out
	dgate, dup, ddown    []squares // of each expert
	gate, up, down       []float64 // of the expert whose turn it is
	g, u, gTerms, uTerms []float64 // of the assignment
}

func (in *inputs) expertTerms(output string) []float64 {
	f := in.Facts
	D, I, ids := f.Dim, f.Intermediate, in.byName["expert_ids"][0].Int32s()
	s := &expertSums{inputs: in, x: in.wide("x"), dy: in.wide("dy"), routing: in.wide("routing_weights"),
		g: make([]float64, I), u: make([]float64, I), gTerms: make([]float64, I), uTerms: make([]float64, I)}
	s.y, s.dx, s.drouting = make(squares, len(s.x)), make(squares, len(s.x)), make(squares, len(ids))
	for e := range f.Experts {
		s.gate, s.up, s.down = in.expert(e)
		s.dgate, s.dup, s.ddown = append(s.dgate, make(squares, I*D)), append(s.dup, make(squares, I*D)), append(s.ddown, make(squares, I*D))
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
		s.g[i], s.u[i] = dotOf(s.gate[i*D:][:D], xt), dotOf(s.up[i*D:][:D], xt)
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
		v := 0.0
		for c := range D {
			v = math.Hypot(v, s.down[c*I+i]*dyt[c])
		}
		silu := g / (1 + math.Exp(-g))
		s.drouting.add(a, silu*s.u[i]*v)
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
			if output == fmt.Sprintf("%s[%d]", name, e) || output == name && s.Facts.Layout == core.PerExpert || output == name && name == "ddown" {
				all = append(all, x...)
			}
		}
		if output == "dgate_up" {
			all = append(append(all, s.dgate[e]...), s.dup[e]...)
		}
	}
	return all.roots()
}

// expert returns the matrices of an expert, in either layout.
func (in *inputs) expert(e int) (gate, up, down []float64) {
	n := in.Facts.Dim * in.Facts.Intermediate
	if in.Facts.Layout == core.PerExpert {
		return values(in.byName["gate"][e]), values(in.byName["up"][e]), values(in.byName["down"][e])
	}
	both, downs := in.byName["gate_up"][0], in.byName["down"][0]
	at := 2 * e * n
	return values(both.Slice(at, at+n, n)), values(both.Slice(at+n, at+2*n, n)), values(downs.Slice(e*n, (e+1)*n, n))
}
