package reference

import (
	"math"

	"github.com/seed98097648/tune/core"
)

func runSwiGLU[F float](c *core.Call) {
	gate, up := gateUp[F](c)
	if c.Pass == core.Forward {
		store(c.Output("y"), swiglu(gate, up))
		return
	}
	dgate, dup := swigluGradient(values[F](c.Input("dy")), gate, up)
	if c.Facts.Layout == core.Packed {
		store(c.Output("dgate_up"), interleaveRows(dgate, dup, c.Facts.Intermediate))
		return
	}
	store(c.Output("dgate"), dgate)
	store(c.Output("dup"), dup)
}

// gateUp reads gate and up, each [T,I], from either layout.
func gateUp[F float](c *core.Call) (gate, up []F) {
	if c.Facts.Layout == core.Separate {
		return values[F](c.Input("gate")), values[F](c.Input("up"))
	}
	both, I := values[F](c.Input("gate_up")), c.Facts.Intermediate
	for ; len(both) > 0; both = both[2*I:] {
		gate, up = append(gate, both[:I]...), append(up, both[I:2*I]...)
	}
	return gate, up
}

// interleaveRows is the inverse: rows of a and b, I elements each, in turn.
func interleaveRows[F float](a, b []F, I int) []F {
	var both []F
	for ; len(a) > 0; a, b = a[I:], b[I:] {
		both = append(append(both, a[:I]...), b[:I]...)
	}
	return both
}

func swiglu[F float](gate, up []F) []F {
	y := make([]F, len(gate))
	for i, g := range gate {
		y[i] = g * sigmoid(g) * up[i]
	}
	return y
}

func swigluGradient[F float](dy, gate, up []F) (dgate, dup []F) {
	dgate, dup = make([]F, len(gate)), make([]F, len(gate))
	for i, g := range gate {
		s := sigmoid(g)
		dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
		dup[i] = dy[i] * g * s
	}
	return dgate, dup
}

// sigmoid never overflows to NaN: exp of a large number is +Inf, and 1/(1+Inf) is 0.
func sigmoid[F float](g F) F { return 1 / (1 + F(math.Exp(float64(-g)))) }
