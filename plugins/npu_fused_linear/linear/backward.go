package linear

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Backward computes, with v = scale * dy B of the adapter,
//
//	dx = dy weight + v A
//	dweight = dy^T x;  dbias = sum over T of dy
//	dA = v^T x;  dB = dy^T u
//
// A frozen weight has neither dweight nor dbias.
func (k *Kernel) Backward(_ context.Context, c *core.Call) error {
	T, D, N, R := c.Tokens(), c.Facts.Dim, c.Facts.Out, c.Facts.Rank
	dy, dx := vector.MatrixOf(c.Input("dy")), vector.Wide(&k.wide, c.Output("dx"))
	products := []vector.Product{{M: T, N: D, K: N, A: dy, B: k.weight(c), C: dx, StrideC: D}}
	if !c.Facts.Frozen {
		p := transposed(N, D, T, dy, vector.MatrixOf(c.Input("x")), c.Output("dweight"))
		p.Accumulate = c.Adding("dweight")
		products = append(products, p)
		if c.Facts.Bias {
			vector.SumRows(c.Output("dbias").Float32s(), c.Input("dy"))
		}
	}
	if R == 0 {
		k.multiply(c, true, products...)
		vector.Narrow(c.Output("dx"), dx)
		return nil
	}
	x, a, b := vector.MatrixOf(c.Input("x")), vector.MatrixOf(c.Input("lora_a")), vector.MatrixOf(c.Input("lora_b"))
	k.multiply(c, true, append(products, k.down(c, x),
		vector.Product{M: T, N: R, K: N, A: dy, B: b, C: vector.Grow(&k.v, T*R), StrideC: R})...)
	scale(k.u, c.Facts)
	scale(k.v, c.Facts)
	v := rows(k.v, R)
	k.multiply(c, false, vector.Product{M: T, N: D, K: R, A: v, B: a, C: dx, StrideC: D, Accumulate: true},
		transposed(R, D, T, v, x, c.Output("dlora_a")), transposed(N, R, T, dy, rows(k.u, R), c.Output("dlora_b")))
	vector.Narrow(c.Output("dx"), dx)
	return nil
}

// transposed is the product a^T b [m,n] of two matrices with t rows.
func transposed(m, n, t int, a, b vector.Matrix, out core.Tensor) vector.Product {
	return vector.Product{M: m, N: n, K: t, A: a, TransA: true, B: b, C: out.Float32s(), StrideC: n}
}
