package qkv

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Backward computes, for n in q, k, v,
//
//	dx = sum over n of dn n_weight
//	dn_weight = dn^T x;  dn_bias = sum over T of dn
//
// Frozen weights have no gradients. Of each round of products one adds to dx.
func (k *Kernel) Backward(_ context.Context, c *core.Call) error {
	T, D := c.Tokens(), c.Facts.Dim
	dx := vector.Wide(&k.wide[3], c.Output("dx"))
	for i, part := range parts {
		N, dy := rows(c.Facts, part), vector.MatrixOf(c.Input("d"+part))
		products := []vector.Product{{M: T, N: D, K: N, A: dy, B: weight(c, part), C: dx, StrideC: D, Accumulate: i > 0}}
		if !c.Facts.Frozen {
			products = append(products, vector.Product{M: N, N: D, K: T, A: dy, TransA: true, B: vector.MatrixOf(c.Input("x")),
				C: c.Output("d" + part + "_weight").Float32s(), StrideC: D})
		}
		k.Multiply.Run(products...)
		if c.Facts.Bias && !c.Facts.Frozen {
			sumRows(c.Output("d"+part+"_bias").Float32s(), c.Input("d"+part))
		}
	}
	vector.Narrow(c.Output("dx"), dx)
	return nil
}

// sumRows adds up the rows of x, in float64, so that the error does not grow with their number.
func sumRows(sum []float32, x core.Tensor) {
	n, tokens := len(sum), x.Shape[0]
	vector.Parallel(n, max(16, grain/max(tokens, 1)), func(lo, hi int) {
		row, total := make([]float32, hi-lo), make([]float64, hi-lo)
		for t := range tokens {
			vector.Load(row, x, t*n+lo)
			for i, v := range row {
				total[i] += float64(v)
			}
		}
		for i, v := range total {
			sum[lo+i] = float32(v)
		}
	})
}
