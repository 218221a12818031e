// Package attentionpre is the op attention_pre,
//
//	h = x + residual;  n = rms_norm of h, plus norm_bias
//	q, k, v = linear layers of n, as qkv has them; or, with scaling, as linear_w8a8 has them
//	q, k = rms_norm of each head, plus a bias, with qk_norm;  then rope of both
//
// each of these rounded as it would be stored.
package attentionpre

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	"github.com/seed98097648/tune/internal/ops/qkv"
	rmsnorm "github.com/seed98097648/tune/internal/ops/rms_norm"
	"github.com/seed98097648/tune/internal/ops/rope"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.AttentionPre,
	Single: run[float32], Double: run[float64],
	Usual:    facts(64, 16, 4, 2, 16),
	Changes:  changes,
	Kinds:    all(facts(5, 4, 2, 1, 2), 0),
	Variants: variants(),

	Positions: 11,
	Fill:      fill,
	Indices:   func(in *opdef.Inputs, rng *rand.Rand, v []int32) { rope.Op.Indices(in, rng, v) },
	Settle:    settle,
	NotFinite: opdef.NotFinite("x", "residual"),
	Zeros:     []string{"x", "residual"},
	Cases: func(f core.Facts, add opdef.Adder) {
		large, small := rmsnorm.Scales(f)
		add("large", 5, opdef.Scaled("x", large))
		add("small", 5, opdef.Scaled("x", small))
		if f.Scaling != "" {
			add("weights at the ends of int8", 9, atTheEnds)
		}
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 2, "x", "residual"))
		if f.Scaling != "" {
			add("a nan among numbers that become int8", 5, opdef.SingleNaN("norm_weight"),
				func(f *core.Facts) { f.Dim = 37 })
		}
	},
	Axes:  axes(),
	Large: []opdef.Large{{Tokens: 1030, Change: func(f *core.Facts) { f.Dim, f.HeadDim, f.RotaryDim = 70, 22, 18 }}},
	Terms: terms,
	Verify: func(u *opdef.Use) { // fewer heads of large weights
		f := &u.Facts
		if most := max(2, opdef.VerifyElems/max(1, f.Dim*f.HeadDim)); f.Heads+2*f.KVHeads > most {
			f.Heads, f.KVHeads = max(1, most/2), max(1, most/4)
		}
		if rope.Op.Verify(u); f.Scaling != "" {
			u.Edit = opdef.Both(u.Edit, atTheEnds)
		}
	},
	Shapes: []opdef.Shape{
		shape("x1024 h16 kv8 of 128", func(*core.Facts) {}),
		shape("x1024 h16 kv8 of 128 in int8",
			func(f *core.Facts) { f.WeightDType, f.Scaling = core.Int8, core.DynamicScaling }),
	},
	Tokens:     []int{1, 8, 512},
	Recordings: []string{"attention_pre"}, Recorded: recorded,
}

// facts are those of layers in float32 with a residual.
func facts(dim, headDim, heads, kvHeads, rotary int) core.Facts {
	return core.Facts{WeightDType: core.Float32, Dim: dim, Eps: 1e-6, Cast: core.CastBeforeWeight, Residual: true,
		Pairing: core.Half, RotaryDim: rotary, HeadDim: headDim, Heads: heads, KVHeads: kvHeads}
}

var changes = []func(*core.Facts){
	func(f *core.Facts) { f.Residual = false },
	func(f *core.Facts) { f.QKNorm = true },
	func(f *core.Facts) { f.QKNorm, f.NormBias = true, true },
	func(f *core.Facts) { f.Bias = true },
	func(f *core.Facts) { f.Pairing = core.Interleaved },
	func(f *core.Facts) { f.Offset, f.Cast = 1, core.CastAfterWeight },
	func(f *core.Facts) { f.WeightDType = core.Int8 },
	func(f *core.Facts) { f.WeightDType, f.Scaling, f.QKNorm = core.Int8, core.StaticScaling, true },
	func(f *core.Facts) { f.WeightDType, f.Scaling, f.Bias = core.Int8, core.DynamicScaling, true },
}

// all returns the facts, and those with each of the changes from one on.
func all(f core.Facts, from int) []core.Facts {
	uses := []core.Facts{f}
	for _, change := range changes[from:] {
		changed := f
		change(&changed)
		uses = append(uses, changed)
	}
	return uses
}

func variants() (uses []core.Facts) {
	sizes := [][5]int{{1, 2, 1, 1, 2}, {7, 6, 3, 1, 4}, {64, 13, 10, 2, 8}, {33, 64, 1, 1, 64}, {130, 16, 2, 2, 16},
		{37, 35, 2, 1, 10}, {64, 6, 2, 1, 6}, {131, 16, 4, 1, 8}, {200, 10, 3, 1, 6}}
	for i, s := range sizes {
		f := facts(s[0], s[1], s[2], s[3], s[4])
		changes[i%len(changes)](&f)
		f.Eps = []float64{1e-6, 1e-5}[i%2]
		if f.WeightDType == core.Float32 && i == 2 {
			f.WeightDType = core.BFloat16
		}
		uses = append(uses, f)
	}
	for i, change := range together {
		f := facts(7+i, 6, 2, 1, 4)
		change(&f)
		uses = append(uses, f)
	}
	return uses
}

// together are changes such that every two facts meet in one of them, or in one of changes.
var together = []func(*core.Facts){
	func(f *core.Facts) {
		f.WeightDType, f.Scaling, f.Bias, f.Residual = core.Int8, core.DynamicScaling, true, false
		f.Offset, f.Cast, f.Pairing, f.QKNorm, f.NormBias = 1, core.CastAfterWeight, core.Interleaved, true, true
	},
	func(f *core.Facts) {
		f.WeightDType, f.Cast, f.Pairing = core.BFloat16, core.CastAfterWeight, core.Interleaved
		f.Bias, f.Residual = true, false
	},
	func(f *core.Facts) {
		f.WeightDType, f.Scaling, f.Offset, f.Pairing = core.Int8, core.StaticScaling, 1, core.Interleaved
		f.Residual, f.NormBias = false, true
	},
	func(f *core.Facts) { f.WeightDType, f.Offset, f.Residual = core.BFloat16, 1, false },
	func(f *core.Facts) { f.WeightDType, f.Scaling, f.Residual = core.Int8, core.DynamicScaling, false },
	func(f *core.Facts) {
		f.WeightDType, f.Scaling, f.Cast, f.Residual = core.Int8, core.StaticScaling, core.CastAfterWeight, false
	},
}

func shape(name string, change func(*core.Facts)) opdef.Shape {
	f := facts(1024, 128, 16, 8, 128)
	f.QKNorm = true
	change(&f)
	return opdef.Shape{Name: name, Facts: f}
}

func axes() []opdef.Axis {
	return []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Dim, f.HeadDim, f.RotaryDim, f.Heads, f.KVHeads = 3, 2, 2, 1, 1 }),
		{Name: "dim", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "rotary_dim", Rests: opdef.Rests32, Step: 13, Large: []int{257},
			Set: func(u *opdef.Use, n int) { u.Facts.RotaryDim, u.Facts.HeadDim = 2*n, 2*n }},
		{Name: "head_dim past rotary_dim", Rests: opdef.SomeRests, Large: []int{130},
			Set: func(u *opdef.Use, n int) { u.Facts.HeadDim = u.Facts.RotaryDim + n }},
		{Name: "heads", Rests: opdef.SomeRests, Large: []int{258}, Set: func(u *opdef.Use, n int) { u.Facts.Heads = n }},
		{Name: "kv_heads", Rests: opdef.SomeRests, Large: []int{258},
			Set: func(u *opdef.Use, n int) { u.Facts.KVHeads = n }},
		{Name: "positions", Rests: opdef.SomeRests, Large: []int{65542, 8194, 32770}, Set: func(u *opdef.Use, n int) {
			u.Positions, u.Edit = n, rope.FarPositions
		}},
	}
}

// part is one of the three layers, and what comes after it.
type part struct {
	name  string
	heads int
	turns bool // q and k do
}

func parts(f core.Facts) []part {
	return []part{{"q", f.Heads, true}, {"k", f.KVHeads, true}, {"v", f.KVHeads, false}}
}

// fill keeps q, k and v near 1, as the ops within it do.
func fill(in *opdef.Inputs, rng *rand.Rand, a core.Arg, v []float32) {
	switch a.Name {
	case "norm_weight", "q_norm_weight", "k_norm_weight":
		a.Name = "weight"
		rmsnorm.Fill(in, rng, a, v)
	case "input_scale":
		v[0] = 1.0 / opdef.Int8Size
	case "q_deq_scale", "k_deq_scale", "v_deq_scale":
		opdef.FillScale(in.Facts.Dim, v)
		for i := range v {
			v[i] /= opdef.Int8Size
		}
	case "cos", "sin":
		rope.Op.Fill(in, rng, a, v)
	default:
		qkv.Op.Fill(in, rng, a, v)
	}
}

// settle sets the offset, and with it what undoes it.
func settle(in *opdef.Inputs, rng *rand.Rand) {
	if in.Facts.Scaling != core.StaticScaling {
		return
	}
	offset := int32(rng.IntN(61)) - 30
	in.Named["input_offset"][0].Int32s()[0] = offset
	for _, p := range parts(in.Facts) {
		opdef.FillQuantBias(rng, in.Named[p.name+"_quant_bias"][0].Int32s(), in.Named[p.name+"_weight"][0].Int8s(), offset)
	}
}

// atTheEnds makes every second row of the weights of the largest and smallest numbers that there are, in runs.
func atTheEnds(in map[string][]core.Tensor) {
	for _, name := range []string{"q", "k", "v"} {
		opdef.AtTheEnds(in[name+"_weight"][0])
		if bias := in[name+"_quant_bias"]; bias != nil {
			clear(bias[0].Int32s()) // what undid the offset of other weights
		}
	}
}

func run[F opdef.Float](c *core.Call) {
	f := c.Facts
	read := func(name string) []F {
		for _, a := range c.Sig.In {
			if a.Name == name {
				return opdef.Values[F](c.Input(name))
			}
		}
		return nil
	}
	h := read("x")
	for i, r := range read("residual") {
		h[i] = opdef.Rounded(f.DType, h[i]+r)
	}
	if f.Residual {
		opdef.Store(c.Output("h"), h)
	}
	var n []F
	if f.Scaling == "" {
		n = norm(f, h, read("norm_weight"), read("norm_bias"))
	} else {
		n = normToQuantise(f, h, read("norm_weight"), read("norm_bias"))
	}
	for _, p := range parts(f) {
		y := project(c, p, n, read)
		if p.turns && f.QKNorm {
			heads := f
			heads.Dim = f.HeadDim
			y = norm(heads, y, read(p.name+"_norm_weight"), read(p.name+"_norm_bias"))
		}
		if p.turns {
			rope.Rotate(f, p.heads, y, read("cos"), read("sin"), c.Input("positions").Int32s())
		}
		opdef.Store(c.Output(p.name), y)
	}
}

// norm is the op rms_norm, and a bias unless that is nil.
func norm[F opdef.Float](f core.Facts, x, weight, bias []F) []F {
	y, _ := rmsnorm.Forward(f, x, weight)
	for i := range y {
		if bias != nil {
			y[i] += bias[i%f.Dim]
		}
		y[i] = opdef.Rounded(f.DType, y[i])
	}
	return y
}

// normToQuantise is norm where whole numbers are made of the result: rstd is rounded to float32, and so is every
// operation after it, unless activations are stored in float64. So the numbers are the same in every arithmetic.
func normToQuantise[F opdef.Float](f core.Facts, x, weight, bias []F) []F {
	arithmetic := f.DType
	if arithmetic != core.Float64 {
		arithmetic = core.Float32
	}
	single := func(v float64) float64 { return opdef.Rounded(arithmetic, v) }
	y := make([]F, len(x))
	for from := 0; from < len(x); from += f.Dim {
		sum := 0.0
		for _, v := range x[from:][:f.Dim] {
			sum += float64(v) * float64(v)
		}
		rstd := single(1 / math.Sqrt(sum/float64(f.Dim)+f.Eps))
		for i, v := range x[from:][:f.Dim] {
			n := single(float64(v) * rstd)
			if f.Cast == core.CastBeforeWeight {
				n = opdef.Rounded(f.DType, n)
			}
			n = single(n * single(float64(weight[i])+float64(f.Offset)))
			if bias != nil {
				n = single(n + float64(bias[i]))
			}
			y[from+i] = F(opdef.Rounded(f.DType, n))
		}
	}
	return y
}

// project returns one of the layers' outputs as it is stored.
func project[F opdef.Float](c *core.Call, p part, n []F, read func(string) []F) (y []F) {
	f := c.Facts
	switch f.Scaling {
	case "":
		weight := read(p.name + "_weight")
		opdef.ScaleRows(weight, read(p.name+"_weight_scale"))
		y = opdef.ProductTransposed(n, weight, f.Dim)
		for i, b := 0, read(p.name+"_bias"); b != nil && i < len(y); i++ {
			y[i] += b[i%len(b)]
		}
	default:
		y = make([]F, len(n)/f.Dim*p.heads*f.HeadDim)
		rows := p.heads * f.HeadDim
		for t := range len(n) / f.Dim {
			projectInt8(c, p, n[t*f.Dim:][:f.Dim], y[t*rows:][:rows])
		}
	}
	for i, v := range y {
		y[i] = opdef.Rounded(f.DType, v)
	}
	return y
}

// projectInt8 is linear_w8a8 of one token.
func projectInt8[F opdef.Float](c *core.Call, p part, n, y []F) {
	f, weight := c.Facts, c.Input(p.name+"_weight").Int8s()
	if f.Scaling == core.StaticScaling {
		q := opdef.QuantiseStatic(f.DType, n, F(c.Input("input_scale").Float32s()[0]), c.Input("input_offset").Int32s()[0])
		sums := opdef.Int8Sums(weight, q, c.Input(p.name+"_quant_bias").Int32s())
		opdef.Dequantised(y, sums, 1, c.Input(p.name+"_deq_scale").Float32s(), nil)
		return
	}
	var bias []float32
	if f.Bias {
		bias = c.Input(p.name + "_bias").Float32s()
	}
	q, s := opdef.QuantiseRow(f.DType, n)
	opdef.Dequantised(y, opdef.Int8Sums(weight, q, nil), s, c.Input(p.name+"_weight_scale").Float32s(), bias)
}
