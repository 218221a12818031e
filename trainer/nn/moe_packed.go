package nn

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// ClampedMoE is a sparse block as gpt-oss has it: the matrices of all experts are one tensor of the files, with inputs
// for rows, [E, D, 2I] and [E, I, D]; columns of gate and up take turns; there are biases; and with limit L
//
//	g = min(gate, L);  u = max(-L, min(up, L));  y = down((u + 1) * g * sigmoid(1.702 g))
//
// No kernel has that: its site is there to say so. Adapters do not go to its experts, which are no linear layers in the
// published code, nor to the router.
type ClampedMoE struct {
	router             *Router
	gateUp, gateUpBias *Param // [E, D, 2I], [E, 2I]
	down, downBias     *Param // [E, I, D], [E, D]
	cfg                MoEConfig
}

// NewClampedMoE adds the parameters below path and the sites below sitePath.
func NewClampedMoE(b *Builder, path, sitePath string, cfg MoEConfig) *ClampedMoE {
	e, i, d := cfg.Router.Experts, cfg.Intermediate, cfg.Hidden
	m := &ClampedMoE{router: NewRouter(b, path+".router", sitePath+".router", d, cfg.Router), cfg: cfg}
	m.gateUp, m.gateUpBias = b.Param(path+".experts.gate_up_proj", e, d, 2*i), b.Param(path+".experts.gate_up_proj_bias", e, 2*i)
	m.down, m.downBias = b.Param(path+".experts.down_proj", e, i, d), b.Param(path+".experts.down_proj_bias", e, d)
	s := b.site(sitePath+".experts", core.MoEExperts, core.Facts{WeightDType: m.gateUp.Tensor.DType, Dim: d, Intermediate: i,
		Activation: core.SiLU, Layout: core.Packed, Experts: e, TopK: cfg.Router.TopK, Routing: cfg.Router.facts(),
		Frozen: m.gateUp.Frozen})
	b.stayPlain(s, "its experts have biases, a clamped activation, and inputs for rows, which moe_experts has not")
	return m
}

// Forward records the block: x [T, D], y [T, D].
func (m *ClampedMoE) Forward(c *Context, x *autograd.Value) *autograd.Value {
	c.costly()
	r := m.router.Forward(c, x)
	c.routed = append(c.routed, r)
	rows := permute(c.G, x, r.ids, m.cfg.Router.Experts)
	both := m.product(c, rows.x, m.gateUp, m.gateUpBias, rows.offsets)
	z := m.product(c, clampedGate(c.G, both, float32(m.cfg.Limit)), m.down, m.downBias, rows.offsets)
	return unpermute(c.G, weigh(c.G, z, r.weights, rows.where), rows.where)
}

// product records y = x weight[e] + bias[e] for the rows of each expert e: x [N, in], y [N, out].
func (m *ClampedMoE) product(c *Context, x *autograd.Value, w, bias *Param, offsets *autograd.Value) *autograd.Value {
	n, in, out := x.Shape()[0], w.Tensor.Shape[1], w.Tensor.Shape[2]
	one := products(1, n, out, in)
	each := func(offsets core.Tensor, product func(e, from, rows int) simd.Product) {
		groups(core.InvalidDType, n, []core.Tensor{offsets}, product)
	}
	return c.G.Apply(autograd.Op{Name: "expert_linear", Outputs: []autograd.Spec{autograd.Float32(n, out)}, Work: one,
		Forward: func(_ context.Context, args, y []core.Tensor) error {
			addends, offsets := args[2], args[3].Int32s()
			for e := range m.cfg.Router.Experts {
				eachRow(int(offsets[e+1]-offsets[e]), out, func(r int) {
					addends.Load(y[0].Float32s()[(int(offsets[e])+r)*out:][:out], e*out)
				})
			}
			each(args[3], func(e, from, rows int) simd.Product {
				return simd.Product{M: rows, N: out, K: in, A: matrixAt(args[0].Float32s(), from, in),
					B: w.operand(args[1], e*in), C: y[0].Float32s()[from*out:], StrideC: out, Accumulate: true}
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1, 3}, Wrt: []int{0, 1, 2}, Accumulate: []int{0},
			Each: []core.Work{one, one, {}}, Run: func(_ context.Context, g *autograd.Grads) error {
				dy := g.DOut[0].Float32s()
				if d := g.DIn[0]; !d.IsZero() {
					each(g.In[3], func(e, from, rows int) simd.Product {
						return simd.Product{M: rows, N: in, K: out, A: matrixAt(dy, from, out), B: w.operand(g.In[1], e*in),
							TransB: true, C: d.Float32s()[from*in:], StrideC: in, Accumulate: g.Add[0]}
					})
				}
				if d := g.DIn[1]; !d.IsZero() { // an expert without tokens has a product of no rows, which clears its gradient
					each(g.In[3], func(e, from, rows int) simd.Product {
						return simd.Product{M: in, N: out, K: rows, A: matrixAt(g.In[0].Float32s(), from, in), TransA: true,
							B: matrixAt(dy, from, out), C: d.Float32s()[e*in*out:], StrideC: out}
					})
				}
				if d := g.DIn[2]; !d.IsZero() {
					offsets := g.In[3].Int32s()
					for e := range m.cfg.Router.Experts {
						from := int(offsets[e])
						columnSums(d.Float32s()[e*out:][:out], int(offsets[e+1])-from, func(sum []float64, r int) {
							for i, v := range dy[(from+r)*out:][:out] {
								sum[i] += float64(v)
							}
						})
					}
				}
				return nil
			}},
	}, x, c.Leaf(w), c.Leaf(bias), offsets)
}

// clampedGate records y = (u + 1) * g * sigmoid(1.702 g) of gate and up, whose columns take turns in x [N, 2I]: g is the
// gate up to the limit, u is up within it. Beyond the limit there is no gradient.
func clampedGate(g *autograd.Graph, x *autograd.Value, limit float32) *autograd.Value {
	n, i := x.Shape()[0], x.Shape()[1]/2
	const sharp = 1.702
	sigmoids := func(s, both []float32) {
		for j := range s {
			s[j] = sharp * min(both[2*j], limit)
		}
		simd.Sigmoid(s, s)
	}
	return g.Apply(autograd.Op{Name: "clamped_gate", Outputs: []autograd.Spec{autograd.Float32(n, i)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			eachRow(n, 2*i, func(r int) {
				both, y := in[0].Float32s()[r*2*i:][:2*i], out[0].Float32s()[r*i:][:i]
				sigmoids(y, both)
				for j, s := range y {
					y[j] = (max(-limit, min(both[2*j+1], limit)) + 1) * min(both[2*j], limit) * s
				}
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0}, Wrt: []int{0}, Scratch: []autograd.Spec{autograd.Float32(n, i)},
			Run: func(_ context.Context, g *autograd.Grads) error {
				eachRow(n, 2*i, func(r int) {
					both, dy := g.In[0].Float32s()[r*2*i:][:2*i], g.DOut[0].Float32s()[r*i:][:i]
					d, sig := g.DIn[0].Float32s()[r*2*i:][:2*i], g.Scratch[0].Float32s()[r*i:][:i]
					sigmoids(sig, both)
					for j, s := range sig {
						gate, up := min(both[2*j], limit), max(-limit, min(both[2*j+1], limit))
						d[2*j], d[2*j+1] = dy[j]*(up+1)*(s+float32(sharp*gate*s*(1-s))), dy[j]*gate*s
						if both[2*j] > limit {
							d[2*j] = 0
						}
						if both[2*j+1] > limit || both[2*j+1] < -limit {
							d[2*j+1] = 0
						}
					}
				})
				return nil
			}},
	}, x)
}
