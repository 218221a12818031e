package swiglu

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded flattens all axes but the last.
func recorded(r opdef.Recording) opdef.Example {
	shape := r.Shape("gate")
	I := shape[len(shape)-1]
	gate := r.In("gate")
	return opdef.Example{
		Facts:  core.Facts{Intermediate: I, Activation: "silu", Layout: core.Separate},
		Tokens: len(gate) / I,
		Float64s: map[string][]float64{
			"gate": gate, "up": r.In("up"), "dy": r.In("d_y"),
		},
		Want: map[string][]float64{
			"y": r.Out("y"), "dgate": r.Grad("gate"), "dup": r.Grad("up"),
		},
	}
}
