package attentionpre

import (
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded separates the rows of q, k and v, and makes every token a row of the tables, as they are recorded. A norm
// without a bias has one of zeros where others of the variant have some.
func recorded(r opdef.Recording) opdef.Example {
	var params struct {
		Heads   int     `json:"num_heads"`
		KVHeads int     `json:"num_kv_heads"`
		HeadDim int     `json:"head_dim"`
		Rotary  int     `json:"rotary_dim"`
		Style   string  `json:"rotary_style"`
		Eps     float64 `json:"eps"`
		Offset  int32   `json:"input_offset"`
	}
	r.Params(&params)
	x := r.Shape("hidden_states")
	f := core.Facts{WeightDType: core.Float32, Dim: x[1], Eps: params.Eps, Cast: core.CastBeforeWeight,
		Residual: r.Has("residual"), QKNorm: true, Bias: r.Has("qkv_bias"),
		NormBias: r.Has("norm_bias") || r.Has("q_norm_bias") || r.Has("k_norm_bias"),
		Pairing:  core.Pairing(params.Style), RotaryDim: params.Rotary, HeadDim: params.HeadDim,
		Heads: params.Heads, KVHeads: params.KVHeads}
	positions := make([]int32, x[0])
	for i := range positions {
		positions[i] = int32(i)
	}
	e := opdef.Example{Tokens: x[0], Rows: x[0],
		Float64s: map[string][]float64{"x": r.In("hidden_states"), "cos": r.In("cos"), "sin": r.In("sin")},
		Int32s:   map[string][]int32{"positions": positions}, Int8s: map[string][]int8{},
		Want: map[string][]float64{"q": r.Out("q"), "k": r.Out("k"), "v": r.Out("v")}}
	if f.Residual {
		e.Float64s["residual"], e.Want["h"] = r.In("residual"), r.Out("residual_out")
	}
	for _, norm := range []string{"", "q_", "k_"} {
		weight := r.In(norm + "norm_weight")
		e.Float64s[norm+"norm_weight"], e.Float64s[norm+"norm_bias"] = weight, make([]float64, len(weight))
		if r.Has(norm + "norm_bias") {
			e.Float64s[norm+"norm_bias"] = r.In(norm + "norm_bias")
		}
	}
	if r.Has("deq_scale") {
		f.WeightDType, f.Scaling = core.Int8, core.StaticScaling
		e.Float64s["input_scale"], e.Int32s["input_offset"] = r.In("input_scale"), []int32{params.Offset}
		e.Exact = map[string][]float32{"v": r.Single("v")} // which is the sums, times a scale
	}
	e.Facts = f
	layers(e, r)
	return e
}

// layers gives each of the three layers its rows.
func layers(e opdef.Example, r opdef.Recording) {
	f, at := e.Facts, 0
	for _, p := range parts(f) {
		from, to := at, at+p.heads*f.HeadDim
		at = to
		if f.Scaling == "" {
			e.Float64s[p.name+"_weight"] = slices.Clone(r.In("qkv_weight")[from*f.Dim : to*f.Dim])
		} else {
			e.Int8s[p.name+"_weight"] = r.Int8s("qkv_weight")[from*f.Dim : to*f.Dim]
			e.Float64s[p.name+"_deq_scale"] = r.In("deq_scale")[from:to]
			e.Int32s[p.name+"_quant_bias"] = r.Int32s("quant_bias")[from:to]
		}
		if f.Bias {
			e.Float64s[p.name+"_bias"] = r.In("qkv_bias")[from:to]
		}
	}
}
