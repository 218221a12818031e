package gateup

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Backward computes, with s as in Forward,
//
//	dg = dy*u*(s + g*s*(1-s));  du = dy*g*s
//	dx = dg gate + du up
//	dgate = dg^T x;  dup = du^T x
//
// a block of tokens after the other. Frozen weights have no gradients.
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	T, weights := c.Tokens(), parts(c)
	dx := vector.Wide(&k.wide, c.Output("dx"))
	for lo := 0; lo < T; lo += blockRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+blockRows, T)
		k.backwardSwiGLU(c, weights, lo, hi)
		k.backwardProducts(c, weights, lo, hi, dx)
	}
	vector.Narrow(c.Output("dx"), dx)
	return nil
}

// backwardSwiGLU computes dg and du of tokens [lo, hi).
func (k *Kernel) backwardSwiGLU(c *core.Call, weights []part, lo, hi int) {
	I, n := c.Facts.Intermediate, hi-lo
	d := vector.Grow(&k.gateUp, n*2*I)
	gu, dy := d, c.Input("dy")
	var saved core.Tensor
	if c.Facts.Recompute {
		k.gateAndUp(c, weights, lo, hi, saved)
	} else if saved = slice(c.Input("gate_up_out"), lo, hi); saved.DType == core.Float32 {
		gu = saved.Float32s()
	}
	vector.Parallel(n, rowGrain, func(from, to int) {
		var wide []float32
		if dy.DType != core.Float32 {
			wide = make([]float32, I)
		}
		for t := from; t < to; t++ {
			row, of, dyt := d[t*2*I:][:2*I], gu[t*2*I:][:2*I], wide
			if dy.DType == core.Float32 {
				dyt = dy.Float32s()[(lo+t)*I:][:I]
			} else {
				vector.Load(dyt, dy, (lo+t)*I)
				if !saved.IsZero() {
					vector.Load(row, saved, t*2*I)
				}
			}
			vector.Stream(false).SwiGLUGrad(row[:I], row[I:], dyt, of[:I], of[I:])
		}
	})
}

// backwardProducts computes dx of tokens [lo, hi), and adds what they have to the gradients of the
// weights. Of each round of products one adds to dx.
func (k *Kernel) backwardProducts(c *core.Call, weights []part, lo, hi int, dx []float32) {
	D, I, n := c.Facts.Dim, c.Facts.Intermediate, hi-lo
	for i, w := range weights {
		d := vector.Matrix{Data: k.gateUp[w.first:], Stride: 2 * I}
		products := []vector.Product{{M: n, N: D, K: w.rows, A: d, B: w.weight, C: dx[lo*D:], StrideC: D, Accumulate: i > 0}}
		if w.gradient != nil {
			products = append(products, vector.Product{M: w.rows, N: D, K: n, A: d, TransA: true,
				B: vector.MatrixOf(slice(c.Input("x"), lo, hi)), C: w.gradient, StrideC: D, Accumulate: w.add || lo > 0})
		}
		k.kept.Run(k.Multiply, [][]core.Tensor{w.frozen}, products...)
	}
}
