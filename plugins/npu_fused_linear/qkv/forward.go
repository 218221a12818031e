package qkv

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward computes q, k and v.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	T, D := c.Tokens(), c.Facts.Dim
	x := vector.MatrixOf(c.Input("x"))
	var products []vector.Product
	var frozen [][]core.Tensor
	for i, part := range parts {
		N, y := rows(c.Facts, part), vector.Wide(&k.wide[i], c.Output(part))
		if c.Facts.Bias {
			bias := c.Input(part + "_bias").Float32s()
			vector.Parallel(T, grain/N+1, func(lo, hi int) {
				for t := lo; t < hi; t++ {
					copy(y[t*N:][:N], bias)
				}
			})
		}
		products = append(products, vector.Product{M: T, N: N, K: D, A: x, B: weight(c, part), TransB: true, Dots: true,
			C: y, StrideC: N, Accumulate: c.Facts.Bias})
		frozen = append(frozen, weights(c, part))
	}
	k.kept.Run(k.Multiply, frozen, products...)
	for i, part := range parts {
		vector.Narrow(c.Output(part), vector.Wide(&k.wide[i], c.Output(part)))
	}
	return nil
}
