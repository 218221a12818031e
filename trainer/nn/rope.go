package nn

import (
	"context"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// RopeTable gives the angles of a rotary embedding: position p turns pair i by
// p * InvFreq[i]; cosine and sine are multiplied by Scale (YaRN's attention factor, 1
// otherwise). All layers of a model share one.
type RopeTable struct {
	InvFreq []float64 // rotary_dim / 2
	Scale   float64
}

// leaves computes the tables cos and sin [P, rotary_dim/2] for one graph.
func (r *RopeTable) leaves(c *Context) (cos, sin *autograd.Value) {
	if v, ok := c.tables[r]; ok {
		return v[0], v[1]
	}
	n := len(r.InvFreq)
	data, err := c.G.Alloc(2 * 4 * c.positions * n)
	if err != nil {
		c.fail(fmt.Errorf("nn: rope tables of %d positions: %w", c.positions, err))
		data = make([]byte, 2*4*c.positions*n)
	}
	both := core.Tensor{DType: core.Float32, Shape: core.Shape{2, c.positions, n}, Data: data}
	tc, ts := both.Slice(0, c.positions*n, c.positions, n), both.Slice(c.positions*n, 2*c.positions*n, c.positions, n)
	eachRow(c.positions, n, func(p int) {
		for i, f := range r.InvFreq {
			s, co := math.Sincos(float64(p) * f)
			tc.Float32s()[p*n+i], ts.Float32s()[p*n+i] = float32(co*r.Scale), float32(s*r.Scale)
		}
	})
	cos, sin = c.G.Input("rope.cos", tc), c.G.Input("rope.sin", ts)
	c.tables[r] = [2]*autograd.Value{cos, sin}
	return cos, sin
}

// Rope rotates queries and keys by their positions. Its site offers rope.
type Rope struct {
	Table *RopeTable
	*site
}

// NewRope adds the site.
func NewRope(b *Builder, path string, table *RopeTable, pairing core.Pairing, heads, kvHeads, headDim int) *Rope {
	return &Rope{table, b.site(path, core.RoPE, core.Facts{Pairing: pairing, RotaryDim: 2 * len(table.InvFreq),
		HeadDim: headDim, Heads: heads, KVHeads: kvHeads})}
}

// Forward records the rotation of q [T, H, C] and k [T, KV, C].
func (r *Rope) Forward(c *Context, q, k *autograd.Value) (*autograd.Value, *autograd.Value) {
	cos, sin := r.Table.leaves(c)
	if r.kernel != nil {
		out := r.fused(c, c.T(), q, k, cos, sin, c.pos)
		return out[0], out[1]
	}
	rotate := func(x *autograd.Value) *autograd.Value {
		return Add(c.G, timesTable(c, x, cos, r.facts, 1), timesTable(c, quarterTurn(c.G, x, r.facts), sin, r.facts, 0))
	}
	return rotate(q), rotate(k)
}

// pair returns the two elements of a head that pair i turns together.
func pair(f core.Facts, i int) (a, b int) {
	if f.Pairing == core.Interleaved {
		return 2 * i, 2*i + 1
	}
	return i, i + f.RotaryDim/2
}

// quarterTurn records (a, b) -> (-b, a) for every pair, and zero for the elements of a
// head that do not rotate: x [T, H, C].
func quarterTurn(g *autograd.Graph, x *autograd.Value, f core.Facts) *autograd.Value {
	half := f.RotaryDim / 2
	turn := func(y, x []float32, sign float32) {
		if f.Pairing == core.Interleaved {
			for i := range half {
				a, b := pair(f, i)
				y[a], y[b] = -sign*x[b], sign*x[a]
			}
		} else {
			simd.Scale(y[:half], x[half:][:half], -sign)
			simd.Scale(y[half:][:half], x[:half], sign)
		}
		clear(y[f.RotaryDim:])
	}
	return rowwise(g, "quarter_turn", x, autograd.Backward{},
		func(y, x []float32) { turn(y, x, 1) },
		func(dx, dy, _, _ []float32) { turn(dx, dy, -1) })
}

// timesTable records the product of both elements of pair i with table[position, i],
// and of the elements that do not rotate with rest: x [T, H, C], table [P, rotary_dim/2].
func timesTable(c *Context, x, table *autograd.Value, f core.Facts, rest float32) *autograd.Value {
	heads, half := x.Shape()[1], f.RotaryDim/2
	times := func(y, x, table []float32, pos []int32) error {
		if err := inRange("position", pos, c.positions, c.S); err != nil {
			return err
		}
		eachRow(len(pos), heads*f.HeadDim, func(t int) {
			factors := table[int(pos[t])*half:][:half]
			for h := t * heads; h < (t+1)*heads; h++ {
				y, x := y[h*f.HeadDim:(h+1)*f.HeadDim], x[h*f.HeadDim:(h+1)*f.HeadDim]
				if f.Pairing == core.Interleaved {
					for i := range half {
						a, b := pair(f, i)
						y[a], y[b] = x[a]*factors[i], x[b]*factors[i]
					}
				} else {
					simd.Mul(y[:half], x[:half], factors)
					simd.Mul(y[half:][:half], x[half:][:half], factors)
				}
				for i := f.RotaryDim; i < f.HeadDim; i++ {
					y[i] = rest * x[i]
				}
			}
		})
		return nil
	}
	return c.G.Apply(autograd.Op{Name: "times_table", Outputs: []autograd.Spec{autograd.Float32(x.Shape()...)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			return times(out[0].Float32s(), in[0].Float32s(), in[1].Float32s(), in[2].Int32s())
		},
		Backward: &autograd.Backward{Inputs: []int{1, 2}, Wrt: []int{0},
			Run: func(_ context.Context, g *autograd.Grads) error {
				return times(g.DIn[0].Float32s(), g.DOut[0].Float32s(), g.In[1].Float32s(), g.In[2].Int32s())
			}},
	}, x, table, c.pos)
}

// inRange checks indices against the size of a table and names the first bad one.
func inRange(what string, v []int32, n, rowLength int) error {
	for i, x := range v {
		if x < 0 || int(x) >= n {
			return fmt.Errorf("nn: %s %d in row %d, position %d is outside [0, %d)", what, x, i/rowLength, i%rowLength, n)
		}
	}
	return nil
}
