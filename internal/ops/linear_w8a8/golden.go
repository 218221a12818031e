package linearw8a8

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

func recorded(r opdef.Recording) opdef.Example {
	x, w := r.Shape("x"), r.Shape("weight")
	e := opdef.Example{Tokens: x[0],
		Facts:    core.Facts{Dim: x[1], Out: w[0], Scaling: core.DynamicScaling},
		Float64s: map[string][]float64{"x": r.In("x")},
		Int8s:    map[string][]int8{"weight": r.Int8s("weight")},
		Want:     map[string][]float64{"y": r.Out("y")},
		Exact:    map[string][]float32{"y": r.Single("y")},
	}
	var params struct {
		Bias   *bool `json:"bias"` // of dynamic ones alone
		Offset int32 `json:"input_offset"`
	}
	r.Params(&params)
	if params.Bias == nil {
		e.Facts.Scaling = core.StaticScaling
		e.Float64s["input_scale"], e.Float64s["deq_scale"] = r.In("input_scale"), r.In("deq_scale")
		e.Int32s = map[string][]int32{"input_offset": {params.Offset}, "quant_bias": r.Int32s("quant_bias")}
		return e
	}
	e.Float64s["weight_scale"] = r.In("weight_scale")
	if e.Facts.Bias = *params.Bias; e.Facts.Bias {
		e.Float64s["bias"] = r.In("bias")
	}
	return e
}
