// Package linear is the op linear,
//
//	u_t = scale * A x_t;  v_t = scale * B^T dy_t, of the adapter, if there is one
//	y_t = weight x_t + bias + B u_t
//	dx_t = weight^T dy_t + A^T v_t
//	dweight = sum over T of dy_t x_t^T;  dbias = sum over T of dy_t
//	dA = sum over T of v_t x_t^T;  dB = sum over T of dy_t u_t^T
//
// With products in bfloat16 every factor above but scale and what is added up in dbias is rounded first.
package linear

import (
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.Linear,
	Single: runLinear[float32], Double: runLinear[float64],
	Usual: core.Facts{Dim: 64, Out: 96},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Bias = true },
		func(f *core.Facts) { f.Rank, f.Scale = 8, 2 },
		func(f *core.Facts) { f.WeightDType, f.Frozen = core.Int8, true },
		func(f *core.Facts) { f.WeightDType, f.Frozen = core.NF4, true },
		func(f *core.Facts) { f.Products = core.BFloat16 },
	},
	Kinds: []core.Facts{
		{Dim: 5, Out: 7}, {Dim: 5, Out: 7, Frozen: true}, {Dim: 5, Out: 7, Bias: true},
		{Dim: 5, Out: 7, Rank: 3, Scale: 0.5}, {Dim: 5, Out: 7, Rank: 3, Scale: 2, Frozen: true, Bias: true},
		{Dim: 5, Out: 7, WeightDType: core.Int8, Frozen: true}, {Dim: 5, Out: 7, WeightDType: core.NF4, Frozen: true},
		{Dim: 5, Out: 7, WeightDType: core.BFloat16, Frozen: true, Rank: 3, Scale: 2},
		{Dim: 5, Out: 7, WeightDType: core.Float16, Frozen: true},
		{Dim: 5, Out: 7, Products: core.BFloat16},
		{Dim: 5, Out: 7, Rank: 3, Scale: 2, Frozen: true, Bias: true, Products: core.BFloat16},
	},
	Variants: []core.Facts{
		{Dim: 1, Out: 1}, {Dim: 7, Out: 5, Bias: true}, {Dim: 64, Out: 130, Rank: 8, Scale: 2},
		{Dim: 33, Out: 64, Rank: 5, Scale: 0.25, Bias: true}, {Dim: 130, Out: 17, WeightDType: core.Float32},
		{Dim: 37, Out: 70, WeightDType: core.Int8, Frozen: true, Rank: 3, Scale: 2},
		{Dim: 64, Out: 5, WeightDType: core.Int8, Frozen: true, Bias: true},
		{Dim: 37, Out: 70, WeightDType: core.BFloat16, Frozen: true, Rank: 3, Scale: -2, Bias: true},
		{Dim: 130, Out: 17, WeightDType: core.Float16, Frozen: true},
		{Dim: 37, Out: 71, WeightDType: core.NF4, Frozen: true, Rank: 3, Scale: 2},
		{Dim: 128, Out: 258, WeightDType: core.NF4, Frozen: true, Bias: true},
		{Dim: 34, Out: 9, WeightDType: core.NF4, Frozen: true, Rank: 3, Scale: 2, Bias: true},
		{Dim: 34, Out: 9, WeightDType: core.Int8, Frozen: true, Rank: 3, Scale: 2, Bias: true, Products: core.BFloat16},
		{Dim: 34, Out: 9, WeightDType: core.Float16, Frozen: true, Rank: 3, Scale: 2, Products: core.BFloat16},
		{Dim: 34, Out: 9, Rank: 3, Scale: 0.5, Bias: true, Products: core.BFloat16},
		{Dim: 96, Out: 18, WeightDType: core.NF4, Frozen: true, Rank: 2, Scale: 2, Products: core.BFloat16},
		{Dim: 37, Out: 70, Bias: true, Products: core.BFloat16},
		{Dim: 64, Out: 33, Rank: 5, Scale: 0.3, Products: core.BFloat16},
		{Dim: 130, Out: 17, WeightDType: core.Int8, Frozen: true, Rank: 3, Scale: 2, Products: core.BFloat16},
	},
	Fill:      fillLinear,
	NotFinite: opdef.NotFinite("x", "dy"),
	Zeros:     []string{"x"},
	Cases: func(f core.Facts, add opdef.Adder) {
		if f.Rank > 0 { // as it is when training begins
			add("an adapter of zeros", 9, opdef.Scaled("lora_b", 0))
		}
		add("large", 5, opdef.Scaled("x", 1000))
		add("terms that cancel", 9, opdef.Each(func(_, i int, v float64) float64 { return v + float64(100*(i%2*2-1)) }, "x"))
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 2, "x"))
	},
	Axes: []opdef.Axis{
		{Name: "tokens", Rests: opdef.EveryRest, Step: 7, Large: opdef.Long, Set: func(u *opdef.Use, n int) {
			if u.Tokens = n; n > 4102 {
				u.Facts.Dim, u.Facts.Out = 3, 2
			}
		}},
		{Name: "dim", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide, Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "out", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide, Set: func(u *opdef.Use, n int) { u.Facts.Out = n }},
		{Name: "rank", Rests: opdef.Rests32, Large: []int{256}, Set: func(u *opdef.Use, n int) {
			u.Facts.Rank, u.Facts.Scale = n, 2
		}},
	},
	Large: []opdef.Large{
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Out = 1030, 70 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Out = 70, 1030 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Out, f.Rank, f.Scale = 70, 70, 70, -2 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.Dim, f.Out = 70, 130 }},
		{Tokens: 1030, Change: func(f *core.Facts) { f.Dim, f.Out = 38, 70 }},
		{Tokens: 18, Change: func(f *core.Facts) { f.Dim, f.Out = 518, 522 }},
	},
	Terms: linearTerms, Borders: linearBorders,
	Verify: func(u *opdef.Use) { // fewer rows of a large weight
		u.Facts.Out = min(u.Facts.Out, max(2, opdef.VerifyElems/max(1, u.Facts.Dim)))
	},
	Shapes: []opdef.Shape{
		{Name: "x1024x3072", Facts: core.Facts{Dim: 1024, Out: 3072}},
		{Name: "x1024x3072_rank16", Facts: core.Facts{Dim: 1024, Out: 3072, Rank: 16, Scale: 2, Frozen: true}},
	},
	Tokens: []int{128, 1024},
	Fast:   opdef.Fast{Folder: "npu_fused_linear/linear", Kernel: "new(Kernel)"},
}

// fillLinear keeps y near 1.
func fillLinear(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	terms := map[string]int{"weight": in.Facts.Dim, "lora_a": in.Facts.Dim, "lora_b": in.Facts.Rank}[a.Name]
	switch {
	case a.Name == "weight_scale" && in.Facts.WeightDType == core.NF4:
		opdef.FillNF4Scale(in.Facts.Dim, v)
	case a.Name == "weight_scale":
		opdef.FillScale(in.Facts.Dim, v)
	default:
		opdef.FillWeight(a, terms, v)
	}
}

// linearInputs are those of a call, nil where there is none.
type linearInputs[F opdef.Float] struct {
	core.Facts
	scale                     F
	x, weight, bias, a, b, dy []F
	absmax, stored            []F // what the weight is multiplied by, as it is stored
	added                     []F // dy as dbias adds it up
}

func runLinear[F opdef.Float](c *core.Call) {
	in := linearInputs[F]{Facts: c.Facts, scale: F(c.Facts.Scale)}
	for name, to := range in.named() {
		for _, a := range c.Sig.In {
			if a.Name == name {
				*to = opdef.Values[F](c.Input(name))
			}
		}
	}
	in.prepare()
	outputs := in.forward
	if c.Pass == core.Backward {
		outputs = in.gradients
	}
	of := outputs()
	for _, out := range c.Sig.Out {
		opdef.Store(c.Output(out.Name), of[out.Name])
	}
}

func (in *linearInputs[F]) named() map[string]*[]F {
	return map[string]*[]F{"x": &in.x, "weight": &in.weight, "weight_absmax": &in.absmax, "weight_scale": &in.stored,
		"bias": &in.bias, "lora_a": &in.a, "lora_b": &in.b, "dy": &in.dy}
}

// prepare makes of what is stored what is multiplied.
func (in *linearInputs[F]) prepare() {
	in.widen()
	in.added = in.dy
	if in.Products == core.BFloat16 {
		in.dy = slices.Clone(in.dy)
		for _, factors := range [][]F{in.x, in.weight, in.a, in.b, in.dy} {
			opdef.RoundBFloat16(factors)
		}
	}
}

// widen multiplies a weight that is not stored as it is, once.
func (in *linearInputs[F]) widen() {
	if in.absmax != nil {
		opdef.WidenNF4(in.weight, in.absmax, in.stored)
	} else {
		opdef.ScaleRows(in.weight, in.stored)
	}
	in.absmax, in.stored = nil, nil
}

// forward returns y.
func (in *linearInputs[F]) forward() map[string][]F {
	N, R := in.Out, in.Rank
	y := opdef.ProductTransposed(in.x, in.weight, in.Dim)
	for t := range len(y) / N {
		u := in.down(t)
		for n := range N {
			if in.bias != nil {
				y[t*N+n] += in.bias[n]
			}
			if R > 0 {
				y[t*N+n] += opdef.Dot(in.b[n*R:][:R], u)
			}
		}
	}
	return map[string][]F{"y": y}
}

// down returns u of a token, as it is multiplied.
func (in *linearInputs[F]) down(t int) []F { return in.thin(in.x[t*in.Dim:][:in.Dim], in.a, in.Dim, 1) }

// up returns v of a token, as it is multiplied.
func (in *linearInputs[F]) up(t int) []F { return in.thin(in.dy[t*in.Out:][:in.Out], in.b, 1, in.Rank) }

// thin returns scale times the sum of the products of v and what an adapter has for each of its rank, which is row
// elements behind that of the one before, and whose elements are apart by each. What is rounded then is added up in
// float64 in either arithmetic, so that both round alike.
func (in *linearInputs[F]) thin(v, m []F, row, each int) []F {
	out := make([]F, in.Rank)
	for r := range out {
		var sum F
		wide, at := 0.0, r*row
		for _, x := range v {
			sum += m[at] * x
			wide += float64(m[at]) * float64(x)
			at += each
		}
		if out[r] = in.scale * sum; in.Products != core.InvalidDType {
			out[r] = F(in.Scale * wide)
		}
	}
	if in.Products == core.BFloat16 {
		opdef.RoundBFloat16(out)
	}
	return out
}

// gradients returns those of all inputs.
func (in *linearInputs[F]) gradients() map[string][]F {
	D, N, R := in.Dim, in.Out, in.Rank
	dx, dweight, dbias := make([]F, len(in.dy)/N*D), make([]F, len(in.weight)), make([]F, N)
	da, db := make([]F, len(in.a)), make([]F, len(in.b))
	for t := range len(in.dy) / N {
		dy := in.dy[t*N:][:N]
		opdef.AddTransposed(dx[t*D:][:D], in.weight, dy)
		opdef.Axpy(dbias, 1, in.added[t*N:][:N])
		if R > 0 {
			v := in.up(t)
			opdef.AddOuter(db, dy, in.down(t))
			opdef.AddTransposed(dx[t*D:][:D], in.a, v)
			opdef.AddOuter(da, v, in.x[t*D:][:D])
		}
	}
	if !in.Frozen {
		opdef.AddOuters(dweight, in.dy, in.x, len(in.dy)/N)
	}
	return map[string][]F{"dx": dx, "dweight": dweight, "dbias": dbias, "dlora_a": da, "dlora_b": db}
}
