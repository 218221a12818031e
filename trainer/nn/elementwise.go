package nn

import (
	"context"
	"sync"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

const (
	grain = 1 << 13 // how many elements make it worth another goroutine
	reuse = 1 << 10 // how many of each slice are used more than once while they are in the first-level cache
)

// Add records y = a + b.
func Add(g *autograd.Graph, a, b *autograd.Value) *autograd.Value {
	return g.Apply(autograd.Op{Name: "add", Outputs: []autograd.Spec{autograd.Float32(a.Shape()...)}, InPlace: true,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			a, b, y := in[0].Float32s(), in[1].Float32s(), out[0].Float32s()
			simd.Parallel(len(y), grain, func(lo, hi int) {
				simd.Add(y[lo:hi], a[lo:hi], b[lo:hi])
			})
			return nil
		},
		Backward: &autograd.Backward{Through: []int{0, 1}},
	}, a, b)
}

// mul records y = a * b.
func mul(g *autograd.Graph, a, b *autograd.Value) *autograd.Value {
	return g.Apply(autograd.Op{Name: "mul", Outputs: []autograd.Spec{autograd.Float32(a.Shape()...)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			a, b, y := in[0].Float32s(), in[1].Float32s(), out[0].Float32s()
			simd.Parallel(len(y), grain, func(lo, hi int) {
				simd.Mul(y[lo:hi], a[lo:hi], b[lo:hi])
			})
			return nil
		},
		Backward: &autograd.Backward{Inputs: []int{0, 1}, Wrt: []int{0, 1},
			Run: func(_ context.Context, g *autograd.Grads) error {
				a, b, dy := g.In[0].Float32s(), g.In[1].Float32s(), g.DOut[0].Float32s()
				da, db := orNone(g.DIn[0]), orNone(g.DIn[1])
				simd.Parallel(len(dy), grain, func(lo, hi int) {
					for ; lo < hi; lo += reuse { // both while a piece of dy is in the cache
						end := min(lo+reuse, hi)
						if da != nil {
							simd.Mul(da[lo:end], dy[lo:end], b[lo:end])
						}
						if db != nil {
							simd.Mul(db[lo:end], dy[lo:end], a[lo:end])
						}
					}
				})
				return nil
			}},
	}, a, b)
}

// silu records y = x * sigmoid(x).
func silu(g *autograd.Graph, x *autograd.Value) *autograd.Value {
	return rowwise(g, "silu", x, autograd.Backward{Inputs: []int{0}}, simd.SiLU,
		func(dx, dy, x, _ []float32) { simd.SiLUGrad(dx, dy, x) })
}

// rowwise records an operation that computes each row of y from that of x, of the same shape,
// and each row of dx from those of dy and of what reads lists: x, y, or both; the other is nil.
func rowwise(g *autograd.Graph, name string, x *autograd.Value, reads autograd.Backward, forward func(y, x []float32),
	backward func(dx, dy, x, y []float32)) *autograd.Value {
	shape := x.Shape()
	n := shape[len(shape)-1]
	each := func(f func(a, b, c, d []float32), a, b, c, d core.Tensor) {
		all := [4][]float32{orNone(a), orNone(b), orNone(c), orNone(d)}
		simd.Parallel(shape.Elems()/n, max(1, grain/n), func(lo, hi int) {
			for at := lo * n; at < hi*n; at += n {
				var row [4][]float32
				for i, x := range all {
					if x != nil {
						row[i] = x[at:][:n]
					}
				}
				f(row[0], row[1], row[2], row[3])
			}
		})
	}
	reads.Wrt = []int{0}
	reads.Run = func(_ context.Context, g *autograd.Grads) error {
		each(backward, g.DIn[0], g.DOut[0], g.In[0], g.Out[0])
		return nil
	}
	return g.Apply(autograd.Op{Name: name, Outputs: []autograd.Spec{autograd.Float32(shape...)}, Backward: &reads,
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			each(func(y, x, _, _ []float32) { forward(y, x) }, out[0], in[0], core.Tensor{}, core.Tensor{})
			return nil
		}}, x)
}

// orNone returns the elements of a tensor that may be none.
func orNone(x core.Tensor) []float32 {
	if x.IsZero() {
		return nil
	}
	return x.Float32s()
}

// halve records (a, b) = the first and the second half of every row of x [N, 2I].
func halve(g *autograd.Graph, x *autograd.Value) (a, b *autograd.Value) {
	i := x.Shape()[1] / 2
	out := split(g, x, i, i)
	return out[0], out[1]
}

// split records the parts, of these widths and side by side, of every row of x.
func split(g *autograd.Graph, x *autograd.Value, widths ...int) []*autograd.Value {
	n, width := x.Shape()[0], x.Shape()[1]
	var parts []autograd.Spec
	for _, w := range widths {
		parts = append(parts, autograd.Float32(n, w))
	}
	// each calls f for every part of every row: its place in x, and in the tensor of its own.
	each := func(whole []float32, part []core.Tensor, f func(whole, part []float32)) {
		simd.Parallel(n, max(1, grain/width), func(lo, hi int) {
			at := 0
			for i, w := range widths {
				part := part[i].Float32s()
				for r := lo; r < hi; r++ {
					f(whole[r*width+at:][:w], part[r*w:][:w])
				}
				at += w
			}
		})
	}
	return g.ApplyAll(autograd.Op{Name: "split", Outputs: parts, Diff: len(parts),
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			each(in[0].Float32s(), out, func(whole, part []float32) { copy(part, whole) })
			return nil
		},
		Backward: &autograd.Backward{Wrt: []int{0}, Run: func(_ context.Context, g *autograd.Grads) error {
			each(g.DIn[0].Float32s(), g.DOut, func(whole, part []float32) { copy(whole, part) })
			return nil
		}},
	}, x)
}

// eachRow calls f for rows [0, rows) of the given width, in parallel.
func eachRow(rows, width int, f func(r int)) {
	simd.Parallel(rows, max(1, grain/max(width, 1)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			f(r)
		}
	})
}

// columnSums writes the sum of f(r, c) over the rows to each column, in float64: blocks of rows, whose sizes follow from
// their number alone, are summed in the order of their rows, and then added one after the other, whatever the number of
// threads. add must add all columns of row r to sum.
func columnSums(dst []float32, rows int, add func(sum []float64, r int)) {
	const least, most = 64, 32 // rows of a block, and blocks
	size := max(least, (rows+most-1)/most)
	blocks, n := (rows+size-1)/size, len(dst)
	buf := accumulators.Get().(*[]float64)
	sums := append((*buf)[:0], make([]float64, blocks*n)...) // which allocates only if it has to grow
	simd.Parallel(blocks, max(1, grain/(size*max(n, 1))), func(lo, hi int) {
		for r := lo * size; r < min(hi*size, rows); r++ {
			add(sums[r/size*n:][:n], r)
		}
	})
	for at := n; at < len(sums); at += n {
		for i, v := range sums[at:][:n] {
			sums[i] += v
		}
	}
	clear(dst) // for no rows
	for i, v := range sums[:min(n, len(sums))] {
		dst[i] = float32(v)
	}
	*buf = sums
	accumulators.Put(buf)
}

// accumulators are what columnSums adds in, used again by the next.
var accumulators = sync.Pool{New: func() any { return new([]float64) }}
