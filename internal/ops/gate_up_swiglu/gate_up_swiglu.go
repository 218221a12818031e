// Package gateupswiglu is the op gate_up_swiglu,
//
//	g_t = gate x_t;  u_t = up x_t
//	y_t = g*s(g)*u
//	dg, du = gradient of swiglu for dy
//	dx_t = gate^T dg_t + up^T du_t
//	dgate = sum over T of dg_t x_t^T, and so dup
package gateupswiglu

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.GateUpSwiGLU,
	Single: runGateUp[float32], Double: runGateUp[float64],
	Usual: core.Facts{Dim: 64, Intermediate: 96, Activation: "silu", Layout: core.Separate},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Recompute = true },
		func(f *core.Facts) { f.Layout = core.Packed },
		func(f *core.Facts) { f.WeightDType, f.Frozen = core.Int8, true },
		func(f *core.Facts) { f.Activation = "gelu" },
	},
	Kinds:     kinds(),
	Variants:  variants(),
	Fill:      fill,
	NotFinite: opdef.NotFinite("x", "dy"),
	Zeros:     []string{"x"},
	Cases: func(_ core.Facts, add opdef.Adder) {
		add("large", 5, opdef.Scaled("x", 75))
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 3, "x"))
	},
	Axes: []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Dim, f.Intermediate = 3, 2 }),
		{Name: "dim", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
		{Name: "intermediate", Rests: opdef.Rests32, Step: 13, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Intermediate = n }},
	},
	Large: []opdef.Large{
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Intermediate = 518, 70 }},
		{Tokens: 70, Change: func(f *core.Facts) { f.Dim, f.Intermediate = 70, 518 }},
		{Tokens: 198, Change: func(f *core.Facts) { f.Dim, f.Intermediate = 70, 134 }},
		{Tokens: 1030, Change: func(f *core.Facts) { f.Dim, f.Intermediate = 38, 70 }},
		{Tokens: 18, Change: func(f *core.Facts) { f.Dim, f.Intermediate = 518, 522 }},
	},
	Terms: terms,
	Verify: func(u *opdef.Use) { // fewer rows of large weights
		f := &u.Facts
		f.Intermediate = min(f.Intermediate, max(2, opdef.VerifyElems/max(1, 2*f.Dim)))
	},
	Shapes: []opdef.Shape{shape("x512x1536", 512, 1536, false), shape("x1024x3072", 1024, 3072, false),
		shape("x1024x3072 recomputed", 1024, 3072, true)},
	Tokens: []int{128, 1024},
	Fast:   opdef.Fast{Folder: "npu_fused_linear/gateup", Kernel: "new(Kernel)"},
}

func shape(name string, dim, intermediate int, recompute bool) opdef.Shape {
	return opdef.Shape{Name: name, Facts: core.Facts{Dim: dim, Intermediate: intermediate, Activation: "silu",
		Layout: core.Separate, Recompute: recompute}}
}

func kinds() (all []core.Facts) {
	for _, f := range []core.Facts{{Layout: core.Separate}, {Layout: core.Separate, Recompute: true},
		{Layout: core.Packed}, {Layout: core.Separate, Frozen: true}, {Layout: core.Packed, Recompute: true, Frozen: true},
		{Layout: core.Separate, WeightDType: core.Int8, Frozen: true},
		{Layout: core.Separate, WeightDType: core.BFloat16, Frozen: true}} {
		f.Dim, f.Intermediate, f.Activation = 5, 7, "silu"
		all = append(all, f)
	}
	return all
}

func variants() (all []core.Facts) {
	for i, s := range [][2]int{{1, 1}, {7, 5}, {64, 131}, {33, 64}, {130, 17}} {
		f := core.Facts{Dim: s[0], Intermediate: s[1], Activation: "silu", Layout: core.Separate, Recompute: i%2 == 1}
		all = append(all, f)
		f.Layout, f.Recompute = core.Packed, !f.Recompute
		all = append(all, f)
	}
	int8s := core.Facts{Dim: 37, Intermediate: 70, Activation: "silu", Layout: core.Separate, WeightDType: core.Int8,
		Frozen: true}
	packed, halves, mixed := int8s, int8s, int8s
	mixed.WeightDType, mixed.Frozen = core.Float32, false
	packed.Layout, packed.Recompute = core.Packed, true
	halves.Layout, halves.WeightDType = core.Packed, core.Float16
	return append(all, int8s, packed, halves, mixed)
}

// fill keeps g and u near 1.
func fill(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	switch {
	case strings.HasSuffix(a.Name, "_scale"):
		opdef.FillScale(in.Facts.Dim, v)
	case a.Name != "x" && a.Name != "dy":
		opdef.FillWeight(a, in.Facts.Dim, v)
	}
}

// weights reads gate and up, each [I,D], from either layout; named gives nil for what there is not.
func weights[F opdef.Float](f core.Facts, named func(string) []F) (gate, up []F) {
	one := func(name string) []F {
		w := named(name)
		opdef.ScaleRows(w, named(name+"_scale"))
		return w
	}
	if f.Layout == core.Separate {
		return one("gate"), one("up")
	}
	both := one("gate_up")
	return both[:len(both)/2], both[len(both)/2:]
}

func runGateUp[F opdef.Float](c *core.Call) {
	f := c.Facts
	in := map[string][]F{}
	for _, a := range c.Sig.In {
		in[a.Name] = opdef.Values[F](c.Input(a.Name))
	}
	gate, up := weights(f, func(name string) []F { return in[name] })
	var g, u []F
	if saved := in["gate_up_out"]; saved != nil {
		g, u = opdef.Halves(saved, f.Intermediate)
	} else {
		g, u = product(f, in["x"], gate), product(f, in["x"], up)
	}
	if c.Pass == core.Forward {
		opdef.Store(c.Output("y"), opdef.SwiGLU(g, u))
		if !f.Recompute {
			opdef.Store(c.Output("gate_up_out"), opdef.InterleaveRows(g, u, f.Intermediate))
		}
		return
	}
	dg, du := opdef.SwiGLUGradient(in["dy"], g, u)
	dx := make([]F, len(dg)/f.Intermediate*f.Dim)
	dgate, dup := gradient(f, dx, dg, gate, in["x"]), gradient(f, dx, du, up, in["x"])
	opdef.Store(c.Output("dx"), dx)
	switch {
	case f.Frozen:
	case f.Layout == core.Packed:
		opdef.Store(c.Output("dgate_up"), append(dgate, dup...))
	default:
		opdef.Store(c.Output("dgate"), dgate)
		opdef.Store(c.Output("dup"), dup)
	}
}

// product returns weight x_t of each token, as it is stored, because swiglu is of that.
func product[F opdef.Float](f core.Facts, x, weight []F) []F {
	y := opdef.ProductTransposed(x, weight, f.Dim)
	for i, v := range y {
		y[i] = opdef.Rounded(f.DType, v)
	}
	return y
}

// gradient adds weight^T dy_t to each dx_t, and returns the gradient of the weight.
func gradient[F opdef.Float](f core.Facts, dx, dy, weight, x []F) []F {
	D, I := f.Dim, f.Intermediate
	dweight := make([]F, len(weight))
	for t := range len(dy) / I {
		opdef.AddTransposed(dx[t*D:][:D], weight, dy[t*I:][:I])
	}
	if !f.Frozen {
		opdef.AddOuters(dweight, dy, x, len(dy)/I)
	}
	return dweight
}

// terms: what g and u are sums of passes through swiglu, whose terms are those of the op swiglu.
func terms(in *opdef.Inputs, pass core.Pass, output string) []float64 {
	f, x, dy := in.Facts, in.Wide("x"), in.Wide("dy")
	D, I := f.Dim, f.Intermediate
	gate, up := weights(f, in.Wide)
	T := in.Tokens
	y, saved, dx := make(opdef.Squares, T*I), make(opdef.Squares, T*2*I), make(opdef.Squares, T*D)
	dgate, dup := make(opdef.Squares, I*D), make(opdef.Squares, I*D)
	for t := range T {
		xt := x[t*D:][:D]
		for i := range I {
			wg, wu := gate[i*D:][:D], up[i*D:][:D]
			g, gTerms := opdef.Dot(wg, xt), opdef.TermsOf(wg, xt)
			u, uTerms := opdef.Dot(wu, xt), opdef.TermsOf(wu, xt)
			silu, slope := math.Abs(g/(1+math.Exp(-g))), opdef.SiluTerms(g)
			saved.Add(t*2*I+i, gTerms)
			saved.Add(t*2*I+I+i, uTerms)
			for _, term := range []float64{silu * u * opdef.SigmoidTerms(g), slope * gTerms * u, silu * uTerms} {
				y.Add(t*I+i, term)
			}
			if pass == core.Forward {
				continue
			}
			d := dy[t*I+i]
			dg := d * math.Hypot(math.Hypot(u*slope*opdef.SigmoidTerms(g), uTerms*slope), u*bend(g)*gTerms)
			du := d * math.Hypot(silu*opdef.SigmoidTerms(g), slope*gTerms)
			for c, v := range xt {
				dx.Add(t*D+c, wg[c]*dg)
				dx.Add(t*D+c, wu[c]*du)
				dgate.Add(i*D+c, dg*v)
				dup.Add(i*D+c, du*v)
			}
		}
	}
	return map[string]opdef.Squares{"y": y, "gate_up_out": saved, "dx": dx, "dgate": dgate, "dup": dup,
		"dgate_up": append(dgate, dup...)}[output].Roots()
}

// bend is the size of the terms of silu's second derivative, 2 s (1-s) + g s (1-s) (1-2s).
func bend(g float64) float64 {
	s := 1 / (1 + math.Exp(-g))
	return s * (1 - s) * math.Hypot(2, g*(1-2*s))
}
