package nn

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// RMSNorm is y = x * rstd * (offset + weight) over the last axis, rstd = 1/sqrt(mean(x^2) + eps).
// Its site offers rms_norm.
type RMSNorm struct {
	Weight *Param // [D]
	sum    *site  // offers add_rms_norm; nil unless the norm is that of a sum
	*site
}

// NewRMSNorm adds the parameter path.weight and the site.
func NewRMSNorm(b *Builder, path, sitePath string, dim int, eps float64) *RMSNorm {
	return newNorm(b, path, sitePath, normKind{dim, eps, 0}, false)
}

// normKind is what norms differ in.
type normKind struct {
	dim    int
	eps    float64
	offset int // 0, or 1 where the weights are stored around zero
}

func (k normKind) facts(weight *Param) core.Facts {
	f := core.Facts{WeightDType: core.Float32, Dim: k.dim, Eps: k.eps, Offset: k.offset, Cast: core.CastBeforeWeight,
		Frozen: weight.Frozen}
	if k.offset != 0 {
		f.Cast = core.CastAfterWeight
	}
	return f
}

// newNorm adds the parameter and the site of a norm. One of the residual stream, right after a block's output has been
// added to that, has a site of the addition and the norm together as well, at sitePath.add.
func newNorm(b *Builder, path, sitePath string, k normKind, residual bool) *RMSNorm {
	n := &RMSNorm{Weight: b.Param(path+".weight", k.dim)}
	n.Weight.AroundZero = k.offset != 0
	if residual {
		n.sum = b.site(sitePath+".add", core.AddRMSNorm, k.facts(n.Weight))
	}
	n.site = b.site(sitePath, core.RMSNorm, k.facts(n.Weight))
	if residual {
		b.sites[len(b.sites)-1].Within = n.sum.path
	}
	return n
}

// Forward records the norm over rows of D elements, whatever the shape of x.
func (n *RMSNorm) Forward(c *Context, x *autograd.Value) *autograd.Value {
	d := n.facts.Dim
	rows := x.Shape().Elems() / d
	flat := x.Reshape(rows, d)
	if n.kernel != nil {
		return n.fused(c, rows, flat, c.Leaf(n.Weight))[0].Reshape(x.Shape()...)
	}
	rstd := rsqrt(c.G, meanSquare(c.G, flat), n.facts.Eps)
	return scaleColumns(c.G, scaleRows(c.G, flat, rstd), plusOffset(c, n)).Reshape(x.Shape()...)
}

// addsItself reports whether a kernel computes the sum that the norm is of.
func (n *RMSNorm) addsItself() bool { return n != nil && n.sum.patched() }

// ofSum records h = residual + x and the norm of h, both [T, D]. If the terms are recorded
// outside the region that the norm is in, they are not kept for it: where it is computed
// again, that starts from h.
func (n *RMSNorm) ofSum(c *Context, residual, x *autograd.Value, outside bool) (h, normed *autograd.Value) {
	if !n.addsItself() {
		h = Add(c.G, residual, x)
		return h, n.Forward(c, h)
	}
	var again *autograd.Again
	if outside {
		again = normAgain(residual.Shape()[0], n.facts.Dim, float32(n.facts.Offset))
	}
	out := n.sum.fusedAgain(c, residual.Shape()[0], again, x, residual, c.Leaf(n.Weight))
	return out[1], out[0]
}

// plusOffset records what a norm multiplies by, of its weight.
func plusOffset(c *Context, n *RMSNorm) *autograd.Value {
	w, offset := c.Leaf(n.Weight), float32(n.facts.Offset)
	if offset == 0 {
		return w
	}
	return c.G.Apply(autograd.Op{Name: "plus_offset", Outputs: []autograd.Spec{autograd.Float32(n.facts.Dim)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			y := out[0].Float32s()
			for i, v := range in[0].Float32s() {
				y[i] = offset + v
			}
			return nil
		},
		Backward: &autograd.Backward{Through: []int{0}},
	}, w)
}

// normAgain computes y = h * rstd * (offset + weight) from the outputs h and rstd of add_rms_norm:
// the weight is its input 2, and y, h and rstd are its outputs. A kernel that rounds in
// other places than float32 arithmetic from left to right has other bits in y than this.
func normAgain(t, d int, offset float32) *autograd.Again {
	gain := make([]float32, d)
	return &autograd.Again{Inputs: []int{2}, Outputs: []int{1, 2}, Writes: []int{0},
		Run: func(_ context.Context, in, out []core.Tensor) error {
			h, rstd, y := in[1].Float32s(), in[2].Float32s(), out[0].Float32s()
			for i, v := range in[0].Float32s() {
				gain[i] = offset + v
			}
			eachRow(t, d, func(r int) {
				simd.Stream(false).ScaleMul(y[r*d:][:d], h[r*d:][:d], gain, rstd[r])
			})
			return nil
		}}
}

// meanSquare records y = mean(x^2) of every row: x [T, D], y [T].
func meanSquare(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	t, d := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "mean_square", Outputs: []autograd.Spec{autograd.Float32(t)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, y := in[0].Float32s(), out[0].Float32s()
			eachRow(t, d, func(r int) {
				y[r] = float32(simd.SumSquares(x[r*d:(r+1)*d]) / float64(d))
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0}, Wrt: []int{0}, Accumulate: []int{0},
			Run: func(_ context.Context, g *autograd.Grads) error {
				x, dy, dx := g.In[0].Float32s(), g.DOut[0].Float32s(), g.DIn[0].Float32s()
				eachRow(t, d, func(r int) {
					scaleInto(dx[r*d:(r+1)*d], x[r*d:(r+1)*d], 2*dy[r]/float32(d), g.Add[0])
				})
				return nil
			}},
	}, x)
}

// rsqrt records y = 1/sqrt(x + eps).
func rsqrt(g *autograd.Graph, x *autograd.Value, eps float64) *autograd.Value {
	return rowwise(g, "rsqrt", x, autograd.Backward{Outputs: []int{0}},
		func(y, x []float32) {
			for i, v := range x {
				y[i] = float32(1 / math.Sqrt(float64(v)+eps))
			}
		},
		func(dx, dy, _, y []float32) {
			for i, v := range y {
				dx[i] = dy[i] * -0.5 * v * v * v
			}
		})
}

// scaleRows records y[t] = x[t] * s[t]: x [T, D], s [T].
func scaleRows(g *autograd.Graph, x, s *autograd.Value) *autograd.Value {
	t, d := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "scale_rows", Outputs: []autograd.Spec{autograd.Float32(t, d)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, s, y := in[0].Float32s(), in[1].Float32s(), out[0].Float32s()
			eachRow(t, d, func(r int) {
				simd.Scale(y[r*d:(r+1)*d], x[r*d:(r+1)*d], s[r])
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1}, All: true, Accumulate: []int{0},
			Run: func(_ context.Context, g *autograd.Grads) error {
				x, s, dy := g.In[0].Float32s(), g.In[1].Float32s(), g.DOut[0].Float32s()
				dx, ds := g.DIn[0].Float32s(), g.DIn[1].Float32s()
				eachRow(t, d, func(r int) {
					ds[r] = float32(simd.DotWide(dy[r*d:(r+1)*d], x[r*d:(r+1)*d]))
					scaleInto(dx[r*d:(r+1)*d], dy[r*d:(r+1)*d], s[r], g.Add[0])
				})
				return nil
			}},
	}, x, s)
}

// scaleColumns records y[t] = x[t] * w: x [T, D], w [D].
func scaleColumns(g *autograd.Graph, x, w *autograd.Value) *autograd.Value {
	t, d := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "scale_columns", Outputs: []autograd.Spec{autograd.Float32(t, d)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			scaleByRow(out[0].Float32s(), in[0].Float32s(), in[1].Float32s(), t, d)
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1},
			Run: func(_ context.Context, g *autograd.Grads) error {
				x, dy := g.In[0].Float32s(), g.DOut[0].Float32s()
				if g.DIn[1].IsZero() {
					scaleByRow(g.DIn[0].Float32s(), dy, g.In[1].Float32s(), t, d)
					return nil
				}
				dx, w := orNone(g.DIn[0]), g.In[1].Float32s()
				columnSums(g.DIn[1].Float32s(), t, func(sum []float64, r int) {
					x, dy := x[r*d:(r+1)*d], dy[r*d:(r+1)*d]
					simd.AddProducts(sum, dy, x)
					if dx != nil { // while the row of dy is in the cache
						simd.Mul(dx[r*d:(r+1)*d], dy, w)
					}
				})
				return nil
			}},
	}, x, w)
}

// scaleInto writes s*x to dst, or adds it.
func scaleInto(dst, x []float32, s float32, add bool) {
	if !add {
		simd.Scale(dst, x, s)
		return
	}
	simd.Axpy(s, x, dst)
}

func scaleByRow(y, x, w []float32, t, d int) {
	eachRow(t, d, func(r int) { simd.Mul(y[r*d:][:d], x[r*d:][:d], w) })
}
