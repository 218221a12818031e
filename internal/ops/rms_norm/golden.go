package rmsnorm

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded has the names of the tensors as they are.
func recorded(r opdef.Recording) opdef.Example {
	var p struct{ Eps float64 }
	r.Params(&p)
	D := r.Shape("weight")[0]
	x := r.In("x")
	return opdef.Example{
		Facts:  core.Facts{WeightDType: core.Float32, Dim: D, Eps: p.Eps, Cast: core.CastBeforeWeight},
		Tokens: len(x) / D,
		Float64s: map[string][]float64{
			"x": x, "weight": r.In("weight"), "dy": r.In("d_y"),
		},
		Want: map[string][]float64{
			"y": r.Out("y"), "dx": r.Grad("x"), "dweight": r.Grad("weight"),
		},
	}
}
