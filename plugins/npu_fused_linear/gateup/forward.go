package gateup

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward computes y, and saves g and u unless backward is to compute them again.
func (k *Kernel) Forward(ctx context.Context, c *core.Call) error {
	T, I, weights := c.Tokens(), c.Facts.Intermediate, parts(c)
	y := c.Output("y")
	for lo := 0; lo < T; lo += blockRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+blockRows, T)
		var saved core.Tensor
		if !c.Facts.Recompute {
			saved = slice(c.Output("gate_up_out"), lo, hi)
		}
		gu := k.gateAndUp(c, weights, lo, hi, saved)
		vector.Parallel(hi-lo, rowGrain, func(from, to int) {
			for t := from; t < to; t++ {
				g, u := gu[t*2*I:][:I], gu[t*2*I+I:][:I]
				if y.DType == core.Float32 {
					vector.Stream(false).SwiGLU(y.Float32s()[(lo+t)*I:][:I], g, u)
					continue
				}
				vector.Stream(false).SwiGLU(g, g, u)
				vector.Store(y, g, (lo+t)*I)
			}
		})
	}
	return nil
}

// gateAndUp computes g and u of tokens [lo, hi), as they are rounded to storage, and saves them if there
// is a place for that.
func (k *Kernel) gateAndUp(c *core.Call, weights []part, lo, hi int, saved core.Tensor) []float32 {
	D, I, n := c.Facts.Dim, c.Facts.Intermediate, hi-lo
	x := vector.MatrixOf(slice(c.Input("x"), lo, hi))
	gu := vector.Grow(&k.gateUp, n*2*I)
	if !saved.IsZero() && saved.DType == core.Float32 {
		gu = saved.Float32s()
	}
	var products []vector.Product
	var frozen [][]core.Tensor
	for _, w := range weights {
		products = append(products, vector.Product{M: n, N: w.rows, K: D, A: x, B: w.weight, TransB: true,
			Dots: c.Tokens() <= vector.FewRows, C: gu[w.first:], StrideC: 2 * I})
		frozen = append(frozen, w.frozen)
	}
	k.kept.Run(k.Multiply, frozen, products...)
	if d := c.Facts.DType; d != core.Float32 {
		vector.Parallel(n, rowGrain, func(from, to int) {
			bits := make([]uint16, 2*I)
			for t := from; t < to; t++ {
				row := gu[t*2*I:][:2*I]
				vector.Round(row, d, bits)
				if !saved.IsZero() {
					vector.Store(saved, row, t*2*I)
				}
			}
		})
	}
	return gu
}
