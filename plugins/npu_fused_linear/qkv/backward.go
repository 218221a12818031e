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
				C: c.Output("d" + part + "_weight").Float32s(), StrideC: D, Accumulate: c.Adding("d" + part + "_weight")})
		}
		k.kept.Run(k.Multiply, [][]core.Tensor{weights(c, part, c.Facts.Frozen)}, products...)
		if c.Facts.Bias && !c.Facts.Frozen {
			vector.SumRows(c.Output("d"+part+"_bias").Float32s(), c.Input("d"+part))
		}
	}
	vector.Narrow(c.Output("dx"), dx)
	return nil
}
