package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes y, and gate_up_out if it is saved.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	I, y := c.Facts.Intermediate, c.Output("y").Float32s()
	for t := range c.Tokens() {
		both := products(c, t)
		for i, g := range both[:I] {
			y[t*I+i] = g * sigmoid(g) * both[I+i]
		}
		if !c.Facts.Recompute {
			copy(c.Output("gate_up_out").Float32s()[t*2*I:], both)
		}
	}
	return nil
}

// products returns g and u of a token.
func products(c *core.Call, t int) []float32 {
	D, I := c.Facts.Dim, c.Facts.Intermediate
	gate, up := halves(c.Facts, c.Input, "")
	x, both := c.Input("x").Float32s()[t*D:][:D], make([]float32, 2*I)
	for i := range I {
		both[i], both[I+i] = dot(gate[i*D:][:D], x), dot(up[i*D:][:D], x)
	}
	return both
}

// sigmoid never overflows to NaN: exp of a large number is +Inf, and 1/(1+Inf) is 0.
func sigmoid(g float32) float32 { return float32(1 / (1 + math.Exp(-float64(g)))) }

func dot(a, b []float32) float32 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return float32(sum)
}
