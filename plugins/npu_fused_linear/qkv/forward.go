package qkv

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward computes q, k and v.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	var y [3][]float32
	for i, part := range parts {
		y[i] = vector.Wide(&k.wide[i], c.Output(part))
	}
	products, frozen := Products(c, vector.MatrixOf(c.Input("x")), y, c.Facts.Frozen)
	k.kept.Run(k.Multiply, frozen, products...)
	for i, part := range parts {
		vector.Narrow(c.Output(part), y[i])
	}
	return nil
}

// Products returns those of a call that has the layers' weights, scales and biases, and the inputs that each of the
// weights is made of, where they are frozen; for vector.Kept. They compute q, k and v of x [T,D] in y, where the
// biases are already.
func Products(c *core.Call, x vector.Matrix, y [3][]float32, frozen bool) (all []vector.Product, of [][]core.Tensor) {
	T, D := c.Tokens(), c.Facts.Dim
	for i, part := range parts {
		N, y := rows(c.Facts, part), y[i]
		if c.Facts.Bias {
			bias := c.Input(part + "_bias").Float32s()
			vector.Parallel(T, grain/N+1, func(lo, hi int) {
				for t := lo; t < hi; t++ {
					copy(y[t*N:][:N], bias)
				}
			})
		}
		all = append(all, vector.Product{M: T, N: N, K: D, A: x, B: weight(c, part), TransB: true, Dots: true,
			C: y, StrideC: N, Accumulate: c.Facts.Bias})
		of = append(of, weights(c, part, frozen))
	}
	return all, of
}
