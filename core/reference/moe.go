package reference

import (
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
				addOuter(d.down, scaled(r.weights[a], dyt), h)
				dg, du := swigluGradient(scaled(r.weights[a], v), g, u)
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

func scaled[F float](p F, v []F) []F {
	out := make([]F, len(v))
	for i, x := range v {
		out[i] = p * x
	}
	return out
}
