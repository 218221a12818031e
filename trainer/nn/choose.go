package nn

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// softmaxRows records the softmax of every row: x [T, E].
func softmaxRows(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	return rowwise(g, "softmax", x, autograd.Backward{Outputs: []int{0}},
		func(y, x []float32) {
			// Less the largest, no exponent is above 0: none overflows, and the sum is at least 1.
			sum := simd.ExpSum(y, x, 1, simd.Max(x))
			simd.Scale(y, y, float32(1/sum))
		},
		func(dx, dy, _, y []float32) { // dx = y * (dy - sum(y * dy))
			dot := simd.DotWide(y, dy)
			for i := range dx {
				dx[i] = float32(float64(y[i]) * (float64(dy[i]) - dot))
			}
		})
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
		Backward: &autograd.Backward{Outputs: []int{1}, Wrt: []int{0},
			Run: func(_ context.Context, g *autograd.Grads) error {
				// Which ones are the largest has no gradient; their values have, where they came from.
				scatterRows(g.DIn[0].Float32s(), g.DOut[0].Float32s(), g.Out[1].Int32s(), e, k)
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

// normalizeRows records y = x / (sum(x) + least) of every row: x [T, K].
func normalizeRows(g *autograd.Graph, x *autograd.Value, least float64) *autograd.Value {
	return rowwise(g, "normalize", x, autograd.Backward{Inputs: []int{0}, Outputs: []int{0}},
		func(y, x []float32) {
			s := sum64(x) + least
			for i, v := range x {
				y[i] = float32(float64(v) / s)
			}
		},
		func(dx, dy, x, y []float32) { // dx = (dy - sum(y * dy)) / s
			s, dot := sum64(x)+least, simd.DotWide(y, dy)
			for i, v := range dy {
				dx[i] = float32((float64(v) - dot) / s)
			}
		})
}

// sigmoid records y = 1/(1 + exp(-x)).
func sigmoid(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	return rowwise(g, "sigmoid", x, autograd.Backward{Outputs: []int{0}},
		func(y, x []float32) {
			for i, v := range x {
				y[i] = float32(1 / (1 + math.Exp(-float64(v))))
			}
		},
		func(dx, dy, _, y []float32) {
			for i, v := range y {
				dx[i] = dy[i] * v * (1 - v)
			}
		})
}

// addToRows records y = x + bias for choosing, which needs no gradient: x [T, E], bias [E].
func addToRows(g *autograd.Graph, x, bias *autograd.Value) *autograd.Value {
	t, e := x.Shape()[0], x.Shape()[1]
	return g.Apply(autograd.Op{Name: "add_to_rows", Outputs: []autograd.Spec{autograd.Float32(t, e)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, bias, y := in[0].Float32s(), in[1].Float32s(), out[0].Float32s()
			eachRow(t, e, func(r int) { simd.Add(y[r*e:(r+1)*e], x[r*e:(r+1)*e], bias) })
			return nil
		},
	}, x, bias)
}

// keepGroups records the scores x [T, E] with those outside the best groups of each row
// set to 0, for choosing, which needs no gradient. A group is ranked by the sum of its
// two largest scores; of equal ones the first wins.
func keepGroups(g *autograd.Graph, x *autograd.Value, groups, keep int) *autograd.Value {
	t, e := x.Shape()[0], x.Shape()[1]
	size := e / groups
	return g.Apply(autograd.Op{Name: "keep_groups", Outputs: []autograd.Spec{autograd.Float32(t, e)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, y := in[0].Float32s(), out[0].Float32s()
			simd.Parallel(t, max(1, grain/e), func(lo, hi int) {
				sums, best, chosen := make([]float32, groups), make([]float32, keep), make([]int32, keep)
				for r := lo; r < hi; r++ {
					row, kept := x[r*e:(r+1)*e], y[r*e:(r+1)*e]
					for i := range sums {
						sums[i] = twoBest(row[i*size : (i+1)*size])
					}
					largest(sums, best, chosen)
					clear(kept)
					for _, i := range chosen {
						copy(kept[int(i)*size:(int(i)+1)*size], row[int(i)*size:])
					}
				}
			})
			return nil
		},
	}, x)
}

// twoBest returns the sum of the two largest elements, of which there are two at least.
func twoBest(x []float32) float32 {
	var values [2]float32
	var ids [2]int32
	largest(x, values[:], ids[:])
	return values[0] + values[1]
}

// gather records y[t, k] = x[t, ids[t, k]], where the ids of a row differ: x [T, E],
// ids [T, K].
func gather(g *autograd.Graph, x, ids *autograd.Value) *autograd.Value {
	t, e, k := x.Shape()[0], x.Shape()[1], ids.Shape()[1]
	return g.Apply(autograd.Op{Name: "gather", Outputs: []autograd.Spec{autograd.Float32(t, k)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, ids, y := in[0].Float32s(), in[1].Int32s(), out[0].Float32s()
			for i, id := range ids {
				y[i] = x[i/k*e+int(id)]
			}
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{1}, Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			scatterRows(g.DIn[0].Float32s(), g.DOut[0].Float32s(), g.In[1].Int32s(), e, k)
			return nil
		}},
	}, x, ids)
}

// scatterRows writes dx[t, ids[t, k]] = dy[t, k], and 0 elsewhere.
func scatterRows(dx, dy []float32, ids []int32, e, k int) {
	eachRow(len(ids)/k, e*k, func(r int) {
		clear(dx[r*e : (r+1)*e])
		for i, id := range ids[r*k : (r+1)*k] {
			dx[r*e+int(id)] = dy[r*k+i]
		}
	})
}

// times records y = s * x.
func times(g *autograd.Graph, x *autograd.Value, s float32) *autograd.Value {
	return rowwise(g, "times", x, autograd.Backward{},
		func(y, x []float32) { simd.Scale(y, x, s) },
		func(dx, dy, _, _ []float32) { simd.Scale(dx, dy, s) })
}

func sum64(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v)
	}
	return s
}
