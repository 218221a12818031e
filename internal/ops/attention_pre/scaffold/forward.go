package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes q, k and v, and h if there is a residual, a token at a time.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	f, x := c.Facts, c.Input("x").Float32s()
	gain, added := of(c, "")
	n := make([]float32, f.Dim)
	for t := range c.Tokens() {
		h := x[t*f.Dim:][:f.Dim]
		if f.Residual {
			sum := c.Output("h").Float32s()[t*f.Dim:][:f.Dim]
			for i, r := range c.Input("residual").Float32s()[t*f.Dim:][:f.Dim] {
				sum[i] = h[i] + r
			}
			h = sum
		}
		norm(f, n, h, gain, added)
		for _, part := range []string{"q", "k", "v"} {
			heads := f.KVHeads
			if part == "q" {
				heads = f.Heads
			}
			width := heads * f.HeadDim
			y := c.Output(part).Float32s()[t*width:][:width]
			project(c, part, y, n)
			if part == "v" {
				continue
			}
			for ; len(y) > 0; y = y[f.HeadDim:] {
				if f.QKNorm {
					gain, added := of(c, part+"_")
					norm(f, y[:f.HeadDim], y[:f.HeadDim], gain, added)
				}
				turn(c, y, int(c.Input("positions").Int32s()[t]))
			}
		}
	}
	return nil
}

// of returns the weight and the bias of a norm; the bias may be nil.
func of(c *core.Call, prefix string) (weight, bias []float32) {
	if c.Facts.NormBias {
		bias = c.Input(prefix + "norm_bias").Float32s()
	}
	return c.Input(prefix + "norm_weight").Float32s(), bias
}

// norm writes that of x, which y may be. Every operation is rounded to float32, and the sum is one in float64: what is
// made of it in int8 is the same whoever computes it.
func norm(f core.Facts, y, x, weight, bias []float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	rstd := float32(1 / math.Sqrt(sum/float64(len(x))+f.Eps))
	for i, v := range x {
		n := float32(v * rstd)
		y[i] = float32(n * (float32(f.Offset) + weight[i]))
		if bias != nil {
			y[i] += bias[i]
		}
	}
}

// turn rotates one head.
func turn(c *core.Call, y []float32, position int) {
	f, half := c.Facts, c.Facts.RotaryDim/2
	cos, sin := c.Input("cos").Float32s()[position*half:], c.Input("sin").Float32s()[position*half:]
	for i := range half {
		a, b := i, i+half
		if f.Pairing == core.Interleaved {
			a, b = 2*i, 2*i+1
		}
		y[a], y[b] = y[a]*cos[i]-y[b]*sin[i], y[b]*cos[i]+y[a]*sin[i]
	}
}
