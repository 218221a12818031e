package linear

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// grain is how many elements make it worth another thread.
const grain = 1 << 14

// Forward computes y.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	T, D, N, R := c.Tokens(), c.Facts.Dim, c.Facts.Out, c.Facts.Rank
	x, y := vector.MatrixOf(c.Input("x")), vector.Wide(&k.wide, c.Output("y"))
	if c.Facts.Bias {
		bias := c.Input("bias").Float32s()
		vector.Parallel(T, grain/N+1, func(lo, hi int) {
			for t := lo; t < hi; t++ {
				copy(y[t*N:][:N], bias)
			}
		})
	}
	products := []vector.Product{{M: T, N: N, K: D, A: x, B: k.weight(c), TransB: true, Dots: true,
		C: y, StrideC: N, Accumulate: c.Facts.Bias}}
	if R == 0 {
		k.multiply(c, true, products...)
	} else {
		k.multiply(c, true, append(products, k.down(c, x))...)
		scale(k.u, c.Facts)
		k.multiply(c, false, vector.Product{M: T, N: N, K: R, A: rows(k.u, R), B: vector.MatrixOf(c.Input("lora_b")),
			TransB: true, C: y, StrideC: N, Accumulate: true})
	}
	vector.Narrow(c.Output("y"), y)
	return nil
}

// weight is that of the call, as an operand.
func (k *Kernel) weight(c *core.Call) vector.Matrix {
	w := c.Input("weight")
	switch w.DType {
	case core.NF4:
		return vector.NF4Of(&k.nf4, w, c.Input("weight_absmax"), c.Input("weight_scale"))
	case core.Int8:
		return vector.Matrix{Int8: w.Int8s(), Scale: c.Input("weight_scale").Float32s(), Stride: c.Facts.Dim}
	}
	return vector.MatrixOf(w)
}

// weights are the inputs that the weight is made of.
func weights(c *core.Call) []core.Tensor {
	switch c.Facts.WeightDType {
	case core.NF4:
		return []core.Tensor{c.Input("weight"), c.Input("weight_absmax"), c.Input("weight_scale")}
	case core.Int8:
		return []core.Tensor{c.Input("weight"), c.Input("weight_scale")}
	}
	return []core.Tensor{c.Input("weight")}
}

// down is the product x A^T, in u.
func (k *Kernel) down(c *core.Call, x vector.Matrix) vector.Product {
	T, D, R := c.Tokens(), c.Facts.Dim, c.Facts.Rank
	return vector.Product{M: T, N: R, K: D, A: x, B: vector.MatrixOf(c.Input("lora_a")), TransB: true,
		C: vector.Grow(&k.u, T*R), StrideC: R}
}

func scale(x []float32, f core.Facts) { vector.Scale(x, x, float32(f.Scale)) }

func rows(x []float32, cols int) vector.Matrix { return vector.Matrix{Data: x, Stride: cols} }
