package nn

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// RMSNorm is y = x * rstd * weight over the last axis, rstd = 1/sqrt(mean(x^2) + eps).
// Its site offers rms_norm.
type RMSNorm struct {
	Weight *Param // [D]
	*site
}

// NewRMSNorm adds the parameter path.weight and the site.
func NewRMSNorm(b *Builder, path, sitePath string, dim int, eps float64) *RMSNorm {
	weight := b.Param(path+".weight", dim)
	return &RMSNorm{weight, b.site(sitePath, core.RMSNorm, core.Facts{
		WeightDType: weight.Tensor.DType, Dim: dim, Eps: eps, Cast: core.CastBeforeWeight, Frozen: weight.Frozen})}
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
	return scaleColumns(c.G, scaleRows(c.G, flat, rstd), c.Leaf(n.Weight)).Reshape(x.Shape()...)
}

// meanSquare records y = mean(x^2) of every row: x [T, D], y [T].
func meanSquare(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	t, d := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "mean_square", Outputs: []autograd.Spec{autograd.Float32(t)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, y := in[0].Float32s(), out[0].Float32s()
			eachRow(t, d, func(r int) {
				var s float64
				for _, v := range x[r*d : (r+1)*d] {
					s += float64(v) * float64(v)
				}
				y[r] = float32(s / float64(d))
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0}, Wrt: []int{0}, Accumulate: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
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
	return g.Apply(autograd.Op{Name: "rsqrt", Outputs: []autograd.Spec{autograd.Float32(x.Shape()...)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			for i, v := range in[0].Float32s() {
				out[0].Float32s()[i] = float32(1 / math.Sqrt(float64(v)+eps))
			}
			return nil
		},
		Backward: &autograd.Backward{Outputs: []int{0}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			dy, dx := g.DOut[0].Float32s(), g.DIn[0].Float32s()
			for i, y := range g.Out[0].Float32s() {
				dx[i] = dy[i] * -0.5 * y * y * y
			}
			return nil
		}},
	}, x)
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
		Backward: &autograd.Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1}, All: true, Accumulate: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			x, s, dy := g.In[0].Float32s(), g.In[1].Float32s(), g.DOut[0].Float32s()
			dx, ds := g.DIn[0].Float32s(), g.DIn[1].Float32s()
			eachRow(t, d, func(r int) {
				var sum float64
				for i := r * d; i < (r+1)*d; i++ {
					sum += float64(dy[i]) * float64(x[i])
				}
				ds[r] = float32(sum)
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
		Backward: &autograd.Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1}, Run: func(_ context.Context, g *autograd.Grads) error {
			x, dy := g.In[0].Float32s(), g.DOut[0].Float32s()
			if dx := g.DIn[0]; !dx.IsZero() {
				scaleByRow(dx.Float32s(), dy, g.In[1].Float32s(), t, d)
			}
			if dw := g.DIn[1]; !dw.IsZero() {
				columnSums(dw.Float32s(), t, func(sum []float64, r, lo int) {
					for i := range sum {
						sum[i] += float64(dy[r*d+lo+i]) * float64(x[r*d+lo+i])
					}
				})
			}
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
	eachRow(t, d, func(r int) {
		for i, v := range w[:d] {
			y[r*d+i] = x[r*d+i] * v
		}
	})
}
