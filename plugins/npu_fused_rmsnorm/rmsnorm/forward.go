package rmsnorm

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// grain is the number of elements below which another goroutine does not pay.
const grain = 1 << 14

// Forward computes y and rstd, and of add_rms_norm h, a row at a time: the norm reads h while
// it is in the cache.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	D, w := c.Facts.Dim, gain(c)
	stream := vector.StreamFor(c.Work().Bytes)
	x, y, rstd := c.Input("x"), c.Output("y"), c.Output("rstd").Float32s()
	var residual, h core.Tensor
	if k.Add {
		residual, h = c.Input("residual"), c.Output("h")
	}
	vector.Parallel(c.Tokens(), grain/D, func(lo, hi int) {
		var row, other []float32
		var bits []uint16
		if c.Facts.DType != core.Float32 {
			row, other, bits = make([]float32, D), make([]float32, D), make([]uint16, D)
		}
		for t := lo; t < hi; t++ {
			if c.Facts.DType == core.Float32 { // where rounding to storage does nothing
				x := x.Float32s()[t*D:][:D]
				if k.Add {
					h := h.Float32s()[t*D:][:D]
					vector.Add(h, x, residual.Float32s()[t*D:][:D])
					x = h
				}
				rstd[t] = ReciprocalRoot(c.Facts, x)
				stream.ScaleMul(y.Float32s()[t*D:][:D], x, w, rstd[t])
				continue
			}
			vector.Load(row, x, t*D)
			if k.Add {
				vector.Load(other, residual, t*D)
				vector.Add(row, row, other)
				vector.Store(h, row, t*D)
				vector.Load(row, h, t*D)
			}
			rstd[t] = ReciprocalRoot(c.Facts, row)
			vector.Scale(row, row, rstd[t])
			round(c.Facts, row, bits)
			vector.Mul(row, row, w)
			vector.Store(y, row, t*D)
		}
	})
	return nil
}

func gain(c *core.Call) []float32 { return Gain(c.Facts, c.Input("weight")) }

// Gain returns offset + weight.
func Gain(f core.Facts, weight core.Tensor) []float32 {
	g := make([]float32, weight.Elems())
	weight.Load(g, 0)
	for i := range g {
		g[i] += float32(f.Offset)
	}
	return g
}

// round rounds n to storage precision where the cast comes before the weight.
func round(f core.Facts, n []float32, bits []uint16) {
	if f.Cast == core.CastBeforeWeight {
		vector.Round(n, f.DType, bits)
	}
}

// ReciprocalRoot returns rstd of one row.
func ReciprocalRoot(f core.Facts, x []float32) float32 {
	return float32(1 / math.Sqrt(vector.SumSquares(x)/float64(len(x))+f.Eps))
}
