package rope

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward rotates q and k.
func (Kernel) Forward(_ context.Context, c *core.Call) error {
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
	stream := vector.StreamFor(c.Work().Bytes)
	vector.Parallel(c.Tokens(), grain/width, func(lo, hi int) {
		s := make([]float32, half)
		var row []float32
		if c.Facts.DType != core.Float32 {
			row = make([]float32, width)
		}
		for t := lo; t < hi; t++ {
			at := int(positions[t]) * half
			vector.Scale(s, sin[at:at+half], direction)
			if c.Facts.DType == core.Float32 {
				RotateRow(c.Facts, stream, out.Float32s()[t*width:][:width], in.Float32s()[t*width:][:width], cos[at:at+half], s)
				continue
			}
			vector.Load(row, in, t*width)
			RotateRow(c.Facts, false, row, row, cos[at:at+half], s)
			vector.Store(out, row, t*width)
		}
	})
}

// RotateRow rotates every head of one token; y may be x.
func RotateRow(f core.Facts, stream vector.Stream, y, x, cos, sin []float32) {
	r := f.RotaryDim
	if f.Pairing != core.Interleaved {
		stream.RotateHeads(y, x, cos, sin, f.HeadDim)
		if r == f.HeadDim {
			return
		}
	}
	for h := 0; h < len(x); h += f.HeadDim {
		y, x := y[h:h+f.HeadDim], x[h:h+f.HeadDim]
		if f.Pairing == core.Interleaved {
			stream.RotatePairs(y[:r], x[:r], cos, sin)
		}
		copy(y[r:], x[r:])
	}
}
