// Package qkv is the op qkv: with n for each of q, k and v,
//
//	n_t = n_weight x_t + n_bias
//	dx_t = sum over n of n_weight^T dn_t
//	dn_weight = sum over T of dn_t x_t^T;  dn_bias = sum over T of dn_t
package qkv

import (
	"math/rand/v2"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.QKV,
	Single: runQKV[float32], Double: runQKV[float64],
	Usual: core.Facts{Dim: 64, HeadDim: 16, Heads: 4, KVHeads: 2},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Bias = true },
		func(f *core.Facts) { f.WeightDType, f.Frozen = core.Int8, true },
	},
	Kinds: []core.Facts{
		{Dim: 5, HeadDim: 3, Heads: 2, KVHeads: 1}, {Dim: 5, HeadDim: 3, Heads: 2, KVHeads: 1, Frozen: true},
		{Dim: 5, HeadDim: 3, Heads: 2, KVHeads: 1, Bias: true},
		{Dim: 5, HeadDim: 3, Heads: 2, KVHeads: 1, WeightDType: core.Int8, Frozen: true},
		{Dim: 5, HeadDim: 3, Heads: 2, KVHeads: 1, WeightDType: core.BFloat16, Frozen: true},
	},
	Variants: []core.Facts{
		{Dim: 1, HeadDim: 1, Heads: 1, KVHeads: 1}, {Dim: 7, HeadDim: 5, Heads: 3, KVHeads: 1, Bias: true},
		{Dim: 64, HeadDim: 13, Heads: 10, KVHeads: 2}, {Dim: 33, HeadDim: 64, Heads: 1, KVHeads: 1, Bias: true},
		{Dim: 130, HeadDim: 17, Heads: 2, KVHeads: 2, WeightDType: core.Float32},
		{Dim: 33, HeadDim: 9, Heads: 2, KVHeads: 1, WeightDType: core.Float16, Frozen: true, Bias: true},
		{Dim: 37, HeadDim: 35, Heads: 2, KVHeads: 1, WeightDType: core.Int8, Frozen: true},
		{Dim: 64, HeadDim: 5, Heads: 2, KVHeads: 1, WeightDType: core.Int8, Frozen: true, Bias: true},
	},
	Fill:      fillQKV,
	NotFinite: opdef.NotFinite("x", "dq", "dk", "dv"),
	Zeros:     []string{"x"},
	Cases: func(_ core.Facts, add opdef.Adder) {
		add("large", 5, opdef.Scaled("x", 1000))
		add("terms that cancel", 9, opdef.Each(func(_, i int, v float64) float64 { return v + float64(100*(i%2*2-1)) }, "x"))
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 2, "x"))
	},
	Axes: []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Dim, f.HeadDim, f.Heads, f.KVHeads = 3, 2, 1, 1 }),
		{Name: "dim", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "head_dim", Rests: opdef.Rests32, Step: 13, Large: []int{514, 1026},
			Set: func(u *opdef.Use, n int) { u.Facts.HeadDim = n }},
		{Name: "heads", Rests: opdef.SomeRests, Large: []int{258}, Set: func(u *opdef.Use, n int) { u.Facts.Heads = n }},
		{Name: "kv_heads", Rests: opdef.SomeRests, Large: []int{258},
			Set: func(u *opdef.Use, n int) { u.Facts.KVHeads = n }},
	},
	Large: []opdef.Large{
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.HeadDim, f.Heads, f.KVHeads = 1030, 14, 3, 1 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.HeadDim, f.Heads, f.KVHeads = 70, 70, 9, 3 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.Dim, f.HeadDim, f.Heads, f.KVHeads = 70, 22, 3, 1 }},
		{Tokens: 1030, Change: func(f *core.Facts) { f.Dim, f.HeadDim, f.Heads, f.KVHeads = 38, 14, 3, 1 }},
		{Tokens: 18, Change: func(f *core.Facts) { f.Dim, f.HeadDim, f.Heads, f.KVHeads = 518, 58, 9, 9 }},
	},
	Terms: terms,
	Verify: func(u *opdef.Use) { // fewer rows of large weights
		f := &u.Facts
		f.HeadDim = min(f.HeadDim, max(2, opdef.VerifyElems/max(1, f.Dim*(f.Heads+2*f.KVHeads))))
	},
	Shapes: []opdef.Shape{
		{Name: "x512 h8 kv4 of 64", Facts: core.Facts{Dim: 512, HeadDim: 64, Heads: 8, KVHeads: 4}},
		{Name: "x1024 h16 kv8 of 128", Facts: core.Facts{Dim: 1024, HeadDim: 128, Heads: 16, KVHeads: 8}},
	},
	Tokens: []int{128, 1024},
	Fast:   opdef.Fast{Folder: "npu_fused_linear/qkv", Kernel: "new(Kernel)"},
}

var parts = []string{"q", "k", "v"}

// fillQKV keeps q, k and v near 1.
func fillQKV(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	switch {
	case strings.HasSuffix(a.Name, "_weight"):
		opdef.FillWeight(a, in.Facts.Dim, v)
	case strings.HasSuffix(a.Name, "_weight_scale"):
		opdef.FillScale(in.Facts.Dim, v)
	}
}

func runQKV[F opdef.Float](c *core.Call) {
	in := map[string][]F{}
	for _, a := range c.Sig.In {
		in[a.Name] = opdef.Values[F](c.Input(a.Name))
	}
	of := compute(c.Facts, c.Pass, in)
	for _, a := range c.Sig.Out {
		opdef.Store(c.Output(a.Name), of[a.Name])
	}
}

// compute returns the outputs of a pass of which these are the inputs.
func compute[F opdef.Float](f core.Facts, pass core.Pass, in map[string][]F) map[string][]F {
	out := map[string][]F{}
	D := f.Dim
	for _, n := range parts {
		weight := in[n+"_weight"]
		opdef.ScaleRows(weight, in[n+"_weight_scale"])
		rows := len(weight) / D
		if pass == core.Forward {
			y := opdef.ProductTransposed(in["x"], weight, D)
			if bias := in[n+"_bias"]; bias != nil {
				for i := range y {
					y[i] += bias[i%rows]
				}
			}
			out[n] = y
			continue
		}
		dy := in["d"+n]
		if out["dx"] == nil {
			out["dx"] = make([]F, len(dy)/rows*D)
		}
		dweight, dbias := make([]F, len(weight)), make([]F, rows)
		for t := range len(dy) / rows {
			dyt := dy[t*rows:][:rows]
			opdef.AddTransposed(out["dx"][t*D:][:D], weight, dyt)
			opdef.Axpy(dbias, 1, dyt)
		}
		if !f.Frozen {
			opdef.AddOuters(dweight, dy, in["x"], len(dy)/rows)
		}
		out["d"+n+"_weight"], out["d"+n+"_bias"] = dweight, dbias
	}
	return out
}

// terms: all that is added up are products of inputs, so that the sums of the terms' squares are
// the op's outputs of the squares of its inputs.
func terms(in *opdef.Inputs, pass core.Pass, output string) []float64 {
	squared := map[string][]float64{}
	for name := range in.Named {
		v := in.Wide(name)
		for i, x := range v {
			v[i] = x * x
		}
		squared[name] = v
	}
	return opdef.Squares(compute(in.Facts, pass, squared)[output]).Roots()
}
