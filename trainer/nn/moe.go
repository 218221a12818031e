package nn

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// MoEConfig sizes a sparse block.
type MoEConfig struct {
	Hidden, Intermediate int // of each expert
	Shared               int // intermediate size of the MLP that every token goes through besides; 0 for none
	Router               RouterConfig
	Names                ExpertNames
	Limit                float64 // of gate and up, in ClampedMoE alone
}

// ExpertNames are what files call the matrices of an expert; the zero value is gate_proj, up_proj and down_proj.
type ExpertNames struct{ Gate, Up, Down string }

func (n ExpertNames) orUsual() ExpertNames {
	if n == (ExpertNames{}) {
		return ExpertNames{"gate_proj", "up_proj", "down_proj"}
	}
	return n
}

// MoE sends every token through the experts that its router chooses, and sums what they
// make of it by their weights. The site of the experts offers moe_experts.
//
// The experts of a layer lie packed in two parameters; files keep one tensor for each.
type MoE struct {
	cfg          MoEConfig
	router       *Router
	gateUp, down *Param      // [E, 2I, D], gate first; [E, D, I]
	adapters     [3]*adapter // of gate, up and down
	shared       *MLP        // nil without one
	*site
}

// NewMoE adds the parameters below path and the sites below sitePath.
func NewMoE(b *Builder, path, sitePath string, cfg MoEConfig) *MoE {
	e, i, d := cfg.Router.Experts, cfg.Intermediate, cfg.Hidden
	names := cfg.Names.orUsual()
	var gateUp, down []Entry
	for x := range e {
		name := fmt.Sprintf("%s.experts.%d.", path, x)
		gateUp = append(gateUp,
			Entry{name + names.Gate + ".weight", 2 * x * i * d, core.Shape{i, d}},
			Entry{name + names.Up + ".weight", (2*x + 1) * i * d, core.Shape{i, d}})
		down = append(down, Entry{name + names.Down + ".weight", x * d * i, core.Shape{d, i}})
	}
	m := &MoE{
		cfg:    cfg,
		router: NewRouter(b, path+".gate", sitePath+".gate", d, cfg.Router),
		gateUp: b.packed(path+".experts.gate_up", gateUp, e, 2*i, d),
		down:   b.packed(path+".experts.down", down, e, d, i),
	}
	m.site = b.site(sitePath+".experts", core.MoEExperts,
		core.Facts{WeightDType: m.gateUp.Tensor.DType, Dim: d, Intermediate: i,
			Activation: "silu", Layout: core.Packed, Experts: e, TopK: cfg.Router.TopK, Routing: cfg.Router.facts(),
			Frozen: m.gateUp.Frozen})
	switch {
	case quantised(m.gateUp) || quantised(m.down):
		b.stayPlain(m.site, "its weights are "+m.gateUp.Tensor.DType.String())
	case m.gateUp.Frozen != m.down.Frozen:
		b.stayPlain(m.site, halfFrozen)
	case m.gateUp.Tensor.DType != m.down.Tensor.DType:
		b.stayPlain(m.site, "its weights are of several dtypes")
	}
	b.expertTargets(m, path, names)
	if cfg.Shared > 0 {
		m.shared = NewMLP(b, path+".shared_experts", sitePath+".shared_experts", d, cfg.Shared, false)
	}
	return m
}

// Forward records the block: x [T, D], y [T, D].
func (m *MoE) Forward(c *Context, x *autograd.Value) *autograd.Value {
	if m.kernel != nil || m.shared != nil || m.router.patched() || m.router.gate.patched() {
		c.costly()
	}
	r := m.router.Forward(c, x)
	c.routed = append(c.routed, r)
	y := m.experts(c, x, r.weights, r.ids)
	if m.shared == nil {
		return y
	}
	return Add(c.G, y, inPath(c, "shared_experts", func() *autograd.Value { return m.shared.Forward(c, x) }))
}

// experts records what the experts of each token make of it: weights and ids [T, K].
func (m *MoE) experts(c *Context, x, weights, ids *autograd.Value) *autograd.Value {
	gateUp, down := c.Leaf(m.gateUp), c.Leaf(m.down)
	defer c.costly()
	if m.kernel != nil {
		return m.fused(c, c.T(), x, ids, weights, gateUp, down)[0]
	}
	// Sorted by expert, the tokens of each lie side by side: one product for each expert instead
	// of one for each token. The copies, as many times the tokens as there are choices, are made again. What an
	// expert makes of a token is multiplied by the token's weight before the last product, which is linear, so that
	// the gradient of the weight needs nothing that the product gave.
	if c.leave == nil {
		c.cheap()
	}
	rows := permute(c.G, x, ids, m.facts.Experts)
	both := groupedLinear(c, rows.x, gateUp, m.gateUp, rows.offsets, 2)
	c.cheap()
	gate, up := m.adapt(c, 0, rows.x, both[0], &rows), m.adapt(c, 1, rows.x, both[1], &rows)
	hidden := weigh(c.G, mul(c.G, silu(c.G, gate), up), weights, rows.where)
	z := m.adapt(c, 2, hidden, groupedLinear(c, hidden, down, m.down, rows.offsets, 1)[0], &rows)
	c.costly()
	return unpermute(c.G, z, rows.where)
}

// adapt records y plus what adapters make of x, of the given matrix of every expert.
func (m *MoE) adapt(c *Context, matrix int, x, y *autograd.Value, rows *permuted) *autograd.Value {
	y = m.adapters[matrix].add(c, x, y, rows.offsets)
	return c.variants(m.site, &m.adapters[matrix], x, y, rows)
}

// permuted are tokens sorted by expert; assignment t*K + k became row where[t, k], and
// the rows of expert e are [offsets[e], offsets[e+1]).
type permuted struct {
	x, where, offsets *autograd.Value
}

// permute records the copy of every token to a row of each of its experts: x [T, D],
// ids [T, K], rows [N, D]. Rows of one expert keep the order of the tokens.
func permute(g *autograd.Graph, x, ids *autograd.Value, experts int) permuted {
	t, d, k := x.Shape()[0], x.Shape()[1], ids.Shape()[1]
	out := g.ApplyAll(autograd.Op{Name: "permute",
		Outputs: []autograd.Spec{autograd.Float32(t*k, d), autograd.Int32(t, k), autograd.Int32(experts + 1)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, ids := in[0].Float32s(), in[1].Int32s()
			y, where, offsets := out[0].Float32s(), out[1].Int32s(), out[2].Int32s()
			countingSort(ids, where, offsets)
			eachRow(t*k, d, func(a int) { copy(y[int(where[a])*d:(int(where[a])+1)*d], x[a/k*d:]) })
			return nil
		},
		Backward: &autograd.Backward{Outputs: []int{1}, Wrt: []int{0},
			Run: func(_ context.Context, g *autograd.Grads) error {
				dy, where, dx := g.DOut[0].Float32s(), g.Out[1].Int32s(), g.DIn[0].Float32s()
				sumRows(dx, dy, where, t, d) // the token was copied to k rows
				return nil
			}},
	}, x, ids)
	return permuted{out[0], out[1], out[2]}
}

// countingSort gives every assignment its row, sorted by expert and stable.
func countingSort(ids, where, offsets []int32) {
	clear(offsets)
	for _, e := range ids {
		offsets[e+1]++
	}
	for e := 1; e < len(offsets); e++ {
		offsets[e] += offsets[e-1]
	}
	for a, e := range ids {
		where[a] = offsets[e]
		offsets[e]++
	}
	copy(offsets[1:], offsets) // the sort moved every offset to the next expert's
	offsets[0] = 0
}

// groupedLinear records y = x * weight[e]^T for the rows of each expert e: x [N, in], weight [E, out, in]. y is that many
// parts of equal width, [N, out/parts] each, as of several matrices that lie packed in one. p is the parameter that
// weight is.
func groupedLinear(c *Context, x, weight *autograd.Value, p *Param, offsets *autograd.Value, parts int) []*autograd.Value {
	n, out, in := x.Shape()[0], weight.Shape()[1]/parts, weight.Shape()[2]
	one := products(1, n, parts*out, in)
	few := c.T() <= simd.FewRows // then an expert has no more, whatever the router chooses
	// of experts [from, to); one that no token chose has products, too: of no rows, which clear the gradient
	weightGradient := func(g *autograd.Grads, from, to int, dst []float32) {
		groupsOf(core.InvalidDType, g.In[2], from, to, parts, func(e, part, row, m int) simd.Product {
			return simd.Product{M: out, N: in, K: m, A: matrixAt(g.DOut[part].Float32s(), row, out), TransA: true,
				B: matrixAt(g.In[0].Float32s(), row, in), C: dst[((e-from)*parts+part)*out*in:], StrideC: in}
		})
	}
	op := autograd.Op{Name: "grouped_linear", Diff: parts, Work: one,
		Outputs: slices.Repeat([]autograd.Spec{autograd.Float32(n, out)}, parts),
		Forward: func(_ context.Context, args, y []core.Tensor) error {
			groupsOf(core.InvalidDType, args[2], 0, weight.Shape()[0], parts, func(e, part, from, m int) simd.Product {
				return simd.Product{M: m, N: out, K: in, A: matrixAt(args[0].Float32s(), from, in),
					B: p.operand(args[1], (e*parts+part)*out), TransB: true, Dots: few,
					C: y[part].Float32s()[from*out:], StrideC: out}
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1, 2}, Wrt: []int{0, 1}, Accumulate: []int{0}, Zeros: parts > 1,
			Parts: &autograd.Parts{Of: 1, Work: one, Run: weightGradient},
			Each:  []core.Work{one, one}, Run: func(_ context.Context, g *autograd.Grads) error {
				for part := range parts { // one after the other, for they add up
					if d := g.DIn[0]; !d.IsZero() {
						groups(core.InvalidDType, n, g.In[2:], func(e, from, m int) simd.Product {
							return simd.Product{M: m, N: in, K: out, A: matrixAt(g.DOut[part].Float32s(), from, out),
								B: p.operand(g.In[1], (e*parts+part)*out), C: d.Float32s()[from*in:], StrideC: in,
								Accumulate: g.Add[0] || part > 0}
						})
					}
				}
				if d := g.DIn[1]; !d.IsZero() {
					weightGradient(g, 0, weight.Shape()[0], d.Float32s())
				}
				return nil
			}},
	}
	return c.G.ApplyAll(op, x, weight, offsets)
}

// sumRows writes to each of t rows of dst the sum of its assignments' rows of src, in the order of the choices.
func sumRows(dst, src []float32, where []int32, t, d int) {
	k := len(where) / t
	eachRow(t, k*d, func(r int) {
		sum := dst[r*d : (r+1)*d]
		clear(sum)
		for _, row := range where[r*k : (r+1)*k] {
			simd.Add(sum, sum, src[int(row)*d:][:d])
		}
	})
}

// weigh records y[where[t, k]] = weights[t, k] * x[where[t, k]]: x and y [N, D].
func weigh(g *autograd.Graph, x, weights, where *autograd.Value) *autograd.Value {
	n, d := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "weigh", Outputs: []autograd.Spec{autograd.Float32(n, d)}, InPlace: true,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, w, where, y := in[0].Float32s(), in[1].Float32s(), in[2].Int32s(), out[0].Float32s()
			eachRow(n, d, func(a int) {
				row := int(where[a]) * d
				simd.Scale(y[row:row+d], x[row:row+d], w[a])
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1, 2}, Wrt: []int{0, 1}, All: true,
			Run: func(_ context.Context, g *autograd.Grads) error {
				x, w, where, dy := g.In[0].Float32s(), g.In[1].Float32s(), g.In[2].Int32s(), g.DOut[0].Float32s()
				dx, dw := g.DIn[0].Float32s(), g.DIn[1].Float32s()
				eachRow(n, d, func(a int) {
					row := int(where[a]) * d
					// wide, as the terms of a weight's gradient may cancel
					dw[a] = float32(simd.DotWide(x[row:row+d], dy[row:row+d]))
					simd.Scale(dx[row:row+d], dy[row:row+d], w[a])
				})
				return nil
			}},
	}, x, weights, where)
}

// unpermute records y[t] = sum over k of z[where[t, k]]: z [N, D], y [T, D].
func unpermute(g *autograd.Graph, z, where *autograd.Value) *autograd.Value {
	t, k, d := where.Shape()[0], where.Shape()[1], z.Shape()[1]
	return g.Apply(autograd.Op{Name: "unpermute", Outputs: []autograd.Spec{autograd.Float32(t, d)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			sumRows(out[0].Float32s(), in[0].Float32s(), in[1].Int32s(), t, d)
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{1}, Wrt: []int{0},
			Run: func(_ context.Context, g *autograd.Grads) error {
				where, dy, dz := g.In[1].Int32s(), g.DOut[0].Float32s(), g.DIn[0].Float32s()
				eachRow(t*k, d, func(a int) { copy(dz[int(where[a])*d:][:d], dy[a/k*d:]) })
				return nil
			}},
	}, z, where)
}
