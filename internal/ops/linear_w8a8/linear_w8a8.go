// Package linearw8a8 is the op linear_w8a8: a linear layer that multiplies int8 by int8,
//
//	static:  q = clamp(round(x / input_scale) + input_offset);  y = (weight q + quant_bias) * deq_scale
//	dynamic: s_t = max|x_t| / 127, 1 for a row of zeros;  q = clamp(round(x / s_t))
//	         y_t = (weight q_t * s_t) * weight_scale + bias
package linearw8a8

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.LinearW8A8,
	Single: run[float32], Double: run[float64],
	Usual: core.Facts{Dim: 64, Out: 96, Scaling: core.DynamicScaling},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Bias = true },
		func(f *core.Facts) { f.Scaling = core.StaticScaling },
	},
	Kinds: []core.Facts{
		{Dim: 5, Out: 7, Scaling: core.DynamicScaling}, {Dim: 5, Out: 7, Scaling: core.StaticScaling},
		{Dim: 5, Out: 7, Scaling: core.DynamicScaling, Bias: true},
	},
	Variants: []core.Facts{
		{Dim: 1, Out: 1, Scaling: core.DynamicScaling}, {Dim: 1, Out: 1, Scaling: core.StaticScaling},
		{Dim: 7, Out: 5, Scaling: core.DynamicScaling, Bias: true}, {Dim: 64, Out: 130, Scaling: core.StaticScaling},
		{Dim: 131, Out: 64, Scaling: core.DynamicScaling}, {Dim: 200, Out: 17, Scaling: core.StaticScaling},
	},
	Fill:      fill,
	Settle:    settle,
	NotFinite: opdef.NotFinite("x"),
	Zeros:     []string{"x"},
	Cases: func(f core.Facts, add opdef.Adder) {
		add("large", 5, opdef.Scaled("x", 1000))
		if f.Scaling == core.StaticScaling {
			add("an offset beyond int8", 9, func(in map[string][]core.Tensor) { in["input_offset"][0].Int32s()[0] = 160 })
		}
		add("numbers at the ends of int8", 9, atTheEnds)
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 1, "x"))
	},
	Axes: []opdef.Axis{
		{Name: "tokens", Rests: opdef.EveryRest, Step: 7, Large: opdef.Long, Set: func(u *opdef.Use, n int) {
			if u.Tokens = n; n > 4102 {
				u.Facts.Dim, u.Facts.Out = 3, 2
			}
		}},
		{Name: "dim", Rests: opdef.EveryRest, Step: 13, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "out", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide, Set: func(u *opdef.Use, n int) { u.Facts.Out = n }},
	},
	Large: []opdef.Large{
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Out = 1030, 70 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Out = 70, 1030 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.Dim, f.Out = 70, 130 }},
		{Tokens: 1030, Change: func(f *core.Facts) { f.Dim, f.Out = 38, 70 }},
		{Tokens: 18, Change: func(f *core.Facts) { f.Dim, f.Out = 518, 522 }},
	},
	Terms: terms,
	Verify: func(u *opdef.Use) { // fewer rows of a large weight, what saturates, and what lies between two numbers
		u.Facts.Out, u.Edit = min(u.Facts.Out, max(2, opdef.VerifyElems/max(1, u.Facts.Dim))), atTheEnds
	},
	Shapes: []opdef.Shape{
		{Name: "x1024x3072", Facts: core.Facts{Dim: 1024, Out: 3072, Scaling: core.DynamicScaling}},
		{Name: "x1024x3072_static", Facts: core.Facts{Dim: 1024, Out: 3072, Scaling: core.StaticScaling}},
	},
	Tokens:     []int{1, 128, 1024},
	Recordings: []string{"linear_w8a8_static", "linear_w8a8_dynamic"}, Recorded: recorded,
}

// fill keeps y near 1: q of standard normal values is near 40.
func fill(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	const size = opdef.Int8Size // of a usual q
	switch a.Name {
	case "weight":
		opdef.FillWeight(a, in.Facts.Dim, v)
	case "weight_scale":
		opdef.FillScale(in.Facts.Dim, v)
	case "input_scale":
		v[0] = 1.0 / size
	case "deq_scale":
		opdef.FillScale(in.Facts.Dim, v)
		for i := range v {
			v[i] /= size
		}
	}
}

// settle sets the offset, and with it what undoes it.
func settle(in *opdef.Inputs, rng *rand.Rand) {
	if in.Facts.Scaling != core.StaticScaling {
		return
	}
	offset := int32(rng.IntN(61)) - 30
	in.Named["input_offset"][0].Int32s()[0] = offset
	opdef.FillQuantBias(rng, in.Named["quant_bias"][0].Int32s(), in.Named["weight"][0].Int8s(), offset)
}

// atTheEnds has opdef.AtTheEnds of the weight, numbers of every second token of the same signs, and opdef.HalfWay.
func atTheEnds(in map[string][]core.Tensor) {
	opdef.AtTheEnds(in["weight"][0])
	opdef.Each(func(t, i int, v float64) float64 {
		if t%2 == 0 {
			return 1000 * float64(1-2*(i/8%2))
		}
		return v
	}, "x")(in)
	opdef.HalfWay(in)
	if bias := in["quant_bias"]; bias != nil {
		clear(bias[0].Int32s()) // what undid the offset of other weights
	}
}

func run[F opdef.Float](c *core.Call) {
	f, x, weight := c.Facts, opdef.Values[F](c.Input("x")), c.Input("weight").Int8s()
	y := make([]F, c.Tokens()*f.Out)
	for t := range c.Tokens() {
		x, y := x[t*f.Dim:][:f.Dim], y[t*f.Out:][:f.Out]
		if f.Scaling == core.StaticScaling {
			scale, offset := F(c.Input("input_scale").Float32s()[0]), c.Input("input_offset").Int32s()[0]
			sums := opdef.Int8Sums(weight, opdef.QuantiseStatic(f.DType, x, scale, offset), c.Input("quant_bias").Int32s())
			opdef.Dequantised(y, sums, 1, c.Input("deq_scale").Float32s(), nil)
			continue
		}
		q, s := opdef.QuantiseRow(f.DType, x)
		var bias []float32
		if f.Bias {
			bias = c.Input("bias").Float32s()
		}
		opdef.Dequantised(y, opdef.Int8Sums(weight, q, nil), s, c.Input("weight_scale").Float32s(), bias)
	}
	opdef.Store(c.Output("y"), y)
}

// terms: the sums are exact, and but for the bias nothing else is added.
func terms(in *opdef.Inputs, _ core.Pass, _ string) []float64 {
	if !in.Facts.Bias {
		return nil
	}
	f, weight, x := in.Facts, in.Named["weight"][0].Int8s(), in.Wide("x")
	var out []float64
	for t := range in.Tokens {
		q, s := opdef.QuantiseRow(f.DType, x[t*f.Dim:][:f.Dim])
		y := make([]float64, f.Out)
		opdef.Dequantised(y, opdef.Int8Sums(weight, q, nil), s, in.Named["weight_scale"][0].Float32s(), nil)
		for n, v := range y {
			out = append(out, math.Hypot(v, float64(in.Named["bias"][0].Float32s()[n])))
		}
	}
	return out
}
