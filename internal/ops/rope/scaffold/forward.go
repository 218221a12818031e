package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Forward writes q_out and k_out.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	rotate(c, c.Facts.Heads, c.Output("q_out").Float32s(), c.Input("q").Float32s(), 1)
	rotate(c, c.Facts.KVHeads, c.Output("k_out").Float32s(), c.Input("k").Float32s(), 1)
	return nil
}

// rotate writes x [T,heads,head_dim], rotated by the angles of its positions, to out. The
// sines are multiplied by sign: -1 rotates back.
func rotate(c *core.Call, heads int, out, x []float32, sign float32) {
	f, half := c.Facts, c.Facts.RotaryDim/2
	cos, sin := c.Input("cos").Float32s(), c.Input("sin").Float32s()
	for t, p := range c.Input("positions").Int32s() {
		cp, sp := cos[int(p)*half:][:half], sin[int(p)*half:][:half]
		for h := range heads {
			from, to := x[(t*heads+h)*f.HeadDim:][:f.HeadDim], out[(t*heads+h)*f.HeadDim:][:f.HeadDim]
			for i := range half {
				a, b := i, i+half
				if f.Pairing == core.Interleaved {
					a, b = 2*i, 2*i+1
				}
				s := sign * sp[i]
				to[a], to[b] = from[a]*cp[i]-from[b]*s, from[b]*cp[i]+from[a]*s
			}
			copy(to[f.RotaryDim:], from[f.RotaryDim:])
		}
	}
}
