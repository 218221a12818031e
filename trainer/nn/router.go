package nn

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// softmaxRows records the softmax of every row: x [T, E].
func softmaxRows(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	t, e := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "softmax", Outputs: []autograd.Spec{autograd.Float32(t, e)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, y := in[0].Float32s(), out[0].Float32s()
			eachRow(t, e, func(r int) {
				x, y := x[r*e:(r+1)*e], y[r*e:(r+1)*e]
				sum := simd.ExpSum(y, x, 1, simd.Max(x))
				simd.Scale(y, y, float32(1/sum))
			})
			return nil
		},
		Backward: &autograd.Backward{Outputs: []int{0}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			y, dy, dx := g.Out[0].Float32s(), g.DOut[0].Float32s(), g.DIn[0].Float32s()
			eachRow(t, e, func(r int) {
				var dot float64
				for i := r * e; i < (r+1)*e; i++ {
					dot += float64(y[i]) * float64(dy[i])
				}
				for i := r * e; i < (r+1)*e; i++ {
					dx[i] = float32(float64(y[i]) * (float64(dy[i]) - dot))
				}
			})
			return nil
		}},
	}, x)
}

// topK records the k largest of every row, largest first, and their columns; of equal
// ones the first: x [T, E], values and ids [T, K].
func topK(g *autograd.Graph, x *autograd.Value, k int) (values, ids *autograd.Value) {
	t, e := x.Shape()[0], x.Shape()[1]
	out := g.ApplyAll(autograd.Op{Name: "top_k", Outputs: []autograd.Spec{autograd.Float32(t, k), autograd.Int32(t, k)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, values, ids := in[0].Float32s(), out[0].Float32s(), out[1].Int32s()
			eachRow(t, e*k, func(r int) {
				largest(x[r*e:(r+1)*e], values[r*k:(r+1)*k], ids[r*k:(r+1)*k])
			})
			return nil
		},
		Backward: &autograd.Backward{Outputs: []int{1}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			ids, dy, dx := g.Out[1].Int32s(), g.DOut[0].Float32s(), g.DIn[0].Float32s()
			eachRow(t, e, func(r int) {
				clear(dx[r*e : (r+1)*e])
				for i, id := range ids[r*k : (r+1)*k] {
					dx[r*e+int(id)] = dy[r*k+i]
				}
			})
			return nil
		}},
	}, x)
	return out[0], out[1]
}

// largest fills values and ids by insertion; NaN counts as larger than any number, so
// that it reaches the output instead of being skipped.
func largest(row, values []float32, ids []int32) {
	n := 0
	for c, v := range row {
		i := n
		for i > 0 && (v > values[i-1] || v != v && values[i-1] == values[i-1]) {
			i--
		}
		if i == len(values) {
			continue
		}
		n = min(n+1, len(values))
		copy(values[i+1:n], values[i:])
		copy(ids[i+1:n], ids[i:])
		values[i], ids[i] = v, int32(c)
	}
}

// normalizeRows records y = x / sum(x) of every row: x [T, K].
func normalizeRows(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	t, k := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "normalize", Outputs: []autograd.Spec{autograd.Float32(t, k)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, y := in[0].Float32s(), out[0].Float32s()
			eachRow(t, k, func(r int) {
				s := sum64(x[r*k : (r+1)*k])
				for i := r * k; i < (r+1)*k; i++ {
					y[i] = float32(float64(x[i]) / s)
				}
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0}, Outputs: []int{0}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			x, y, dy, dx := g.In[0].Float32s(), g.Out[0].Float32s(), g.DOut[0].Float32s(), g.DIn[0].Float32s()
			eachRow(t, k, func(r int) {
				s := sum64(x[r*k : (r+1)*k])
				var dot float64
				for i := r * k; i < (r+1)*k; i++ {
					dot += float64(y[i]) * float64(dy[i])
				}
				for i := r * k; i < (r+1)*k; i++ {
					dx[i] = float32((float64(dy[i]) - dot) / s)
				}
			})
			return nil
		}},
	}, x)
}

func sum64(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}
