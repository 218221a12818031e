package main

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Forward rotates q and k.
func (k kernel) Forward(ctx context.Context, c *core.Call) error {
	if err := k.check(ctx, c); err != nil {
		return err
	}
	rotate(c, c.Facts.Heads, c.Input("q"), c.Output("q_out"), 1)
	rotate(c, c.Facts.KVHeads, c.Input("k"), c.Output("k_out"), 1)
	return nil
}

// grain is the number of elements below which another goroutine does not pay.
const grain = 1 << 13

// rotate writes in, [T,heads,head_dim], to out, each head rotated by its token's angles
// times direction, which is 1 or -1.
func rotate(c *core.Call, heads int, in, out core.Tensor, direction float32) {
	width, half := heads*c.Facts.HeadDim, c.Facts.RotaryDim/2
	cos, sin, positions := c.Input("cos").Float32s(), c.Input("sin").Float32s(), c.Input("positions").Int32s()
	simd.Parallel(c.Tokens(), grain/width, func(lo, hi int) {
		row, s := make([]float32, width), make([]float32, half)
		for t := lo; t < hi; t++ {
			at := int(positions[t]) * half
			for i, v := range sin[at : at+half] {
				s[i] = direction * v
			}
			in.Load(row, t*width)
			for h := 0; h < width; h += c.Facts.HeadDim {
				rotateHead(c.Facts.Pairing, row[h:h+2*half], cos[at:at+half], s)
			}
			out.Store(row, t*width)
		}
	})
}

// rotateHead rotates the pairs of x, twice as long as cos and sin, in place.
func rotateHead(pairing core.Pairing, x, cos, sin []float32) {
	n := len(cos)
	sin = sin[:n]
	if pairing == core.Interleaved {
		for i, c := range cos {
			a, b := x[2*i], x[2*i+1]
			x[2*i], x[2*i+1] = a*c-b*sin[i], b*c+a*sin[i]
		}
		return
	}
	low, high := x[:n], x[n:2*n]
	for i, c := range cos {
		a, b := low[i], high[i]
		low[i], high[i] = a*c-b*sin[i], b*c+a*sin[i]
	}
}
