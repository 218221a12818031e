package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	gates, ups := halves(c.Facts, c.Input, "")
	y := rows{c.Output("y").Float32s(), c.Facts.Intermediate, 0}
	for t := range c.Tokens() {
		gate, up, out := gates.row(t, c.Facts), ups.row(t, c.Facts), y.row(t, c.Facts)
		for i, g := range gate {
			out[i] = g * sigmoid(g) * up[i]
		}
	}
	return nil
}

// sigmoid never overflows to NaN: exp of a large number is infinite, and 1/(1+Inf) is 0.
func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// rows is a tensor [T,I], or one half of a packed one: row t starts at t*stride + from.
type rows struct {
	data         []float32
	stride, from int
}

func (r rows) row(t int, f core.Facts) []float32 { return r.data[t*r.stride+r.from:][:f.Intermediate] }

// halves finds gate and up in either layout; with the prefix d, their gradients.
func halves(f core.Facts, named func(string) core.Tensor, prefix string) (gate, up rows) {
	I := f.Intermediate
	if f.Layout == core.Packed {
		both := named(prefix + "gate_up").Float32s()
		return rows{both, 2 * I, 0}, rows{both, 2 * I, I}
	}
	return rows{named(prefix + "gate").Float32s(), I, 0}, rows{named(prefix + "up").Float32s(), I, 0}
}
