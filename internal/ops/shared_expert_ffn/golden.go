package sharedexpertffn

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded has, beside y, the sums of whole numbers that it was made of. They are those of the recording only if
// every whole number on the way is.
func recorded(r opdef.Recording) opdef.Example {
	x, down := r.Shape("x"), r.Shape("w2")
	weight, scale, half := r.Int8s("w13"), r.In("w13_scale"), down[0]*down[1]
	e := opdef.Example{Tokens: x[0],
		Facts: core.Facts{Dim: x[1], Intermediate: down[1], Activation: "silu", Layout: core.Separate},
		Float64s: map[string][]float64{"x": r.In("x"), "gate_scale": scale[:down[1]], "up_scale": scale[down[1]:],
			"down_scale": r.In("w2_scale")},
		Int8s: map[string][]int8{"gate": weight[:half], "up": weight[half:], "down": r.Int8s("w2")},
		Want:  map[string][]float64{"y": r.Out("y")},
	}
	var q []int8
	for _, v := range r.Tensor(r.Variant + ".out.q2").Int32s() {
		q = append(q, int8(v))
	}
	for ; len(q) > 0; q = q[down[1]:] {
		for _, sum := range opdef.Int8Sums(e.Int8s["down"], q[:down[1]], nil) {
			e.Want["sums"] = append(e.Want["sums"], float64(sum))
		}
	}
	scales := r.Out("scale2")
	e.Got = func(out map[string][]float64) map[string][]float64 {
		sums := make([]float64, len(out["y"]))
		for i, v := range out["y"] {
			sums[i] = math.Round(v / scales[i/x[1]] / e.Float64s["down_scale"][i%x[1]])
		}
		out["sums"] = sums
		return out
	}
	e.Exact = map[string][]float32{}
	for _, v := range e.Want["sums"] {
		e.Exact["sums"] = append(e.Exact["sums"], float32(v))
	}
	return e
}
