// Package rmsnorm is the op rms_norm,
//
//	rstd = 1/sqrt(mean(x^2) + eps);  n = x*rstd;  y = n*(offset + weight)
//	dweight = sum over T of dy*n;  g = dy*(offset + weight)
//	dx = rstd*(g - n*mean(g*n))
package rmsnorm

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.RMSNorm,
	Single: runRMSNorm[float32], Double: runRMSNorm[float64],
	Usual: core.Facts{Dim: 64, Eps: 1e-6, Cast: core.CastBeforeWeight},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Offset = 1 },
		func(f *core.Facts) { // float32 has no cast
			f.DType, f.WeightDType, f.Cast = core.BFloat16, core.BFloat16, core.CastAfterWeight
		},
	},
	Kinds: []core.Facts{
		{Dim: 9, Eps: 1e-6, Cast: core.CastBeforeWeight},
		{Dim: 9, Eps: 1e-6, Cast: core.CastAfterWeight, Offset: 1},
		{Dim: 9, Eps: 1e-6, Cast: core.CastBeforeWeight, Frozen: true},
	},
	Variants:  normVariants(),
	Fill:      Fill,
	NotFinite: opdef.NotFinite("x", "dy"),
	Zeros:     []string{"x"},
	Cases:     Cases,
	Extremes:  Extremes,
	Axes: []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Dim = 2 }),
		{Name: "dim", Rests: opdef.EveryRest, Step: 7, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Dim = n }},
	},
	Large: []opdef.Large{{Tokens: 1030, Change: func(f *core.Facts) { f.Dim = 1030 }}},
	Terms: func(in *opdef.Inputs, pass core.Pass, output string) []float64 {
		return Terms(in, pass, output, in.Wide("x"))
	},
	Stack: func(f core.Facts) *opdef.Stack {
		return &opdef.Stack{Next: map[string]string{"y": "x"}, Around: map[string]float64{"weight": float64(1 - f.Offset)}}
	},
	TokenWise:  true,
	Shapes:     []opdef.Shape{normShape(1024), normShape(4096)},
	Tokens:     []int{128, 2048},
	Recordings: []string{"rmsnorm"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_rmsnorm/rmsnorm", Kernel: "new(Kernel)"},
}

func normShape(dim int) opdef.Shape {
	return opdef.Shape{Name: fmt.Sprintf("x%d", dim), Facts: core.Facts{Dim: dim, Eps: 1e-6, Cast: core.CastBeforeWeight}}
}

func normVariants() []core.Facts {
	norm := func(dim, offset int, cast core.CastOrder) core.Facts {
		return core.Facts{Dim: dim, Eps: 1e-5, Offset: offset, Cast: cast}
	}
	mixed := norm(65, 0, core.CastBeforeWeight)
	mixed.WeightDType = core.Float32
	bfloat16, float16, frozen := mixed, mixed, norm(34, 1, core.CastAfterWeight)
	bfloat16.WeightDType, float16.WeightDType, frozen.Frozen = core.BFloat16, core.Float16, true
	return []core.Facts{
		norm(1, 0, core.CastBeforeWeight), norm(7, 1, core.CastBeforeWeight), norm(64, 0, core.CastAfterWeight),
		norm(129, 1, core.CastAfterWeight), norm(256, 0, core.CastBeforeWeight), mixed,
		norm(1027, 0, core.CastBeforeWeight), bfloat16, float16, frozen,
	}
}

func runRMSNorm[F opdef.Float](c *core.Call) {
	x, weight := opdef.Values[F](c.Input("x")), opdef.Values[F](c.Input("weight"))
	if c.Pass == core.Forward {
		y, rstd := Forward(c.Facts, x, weight)
		opdef.Store(c.Output("y"), y)
		opdef.Store(c.Output("rstd"), rstd)
		return
	}
	dx, dweight := Gradient(c.Facts, opdef.Values[F](c.Input("dy")), x, weight)
	opdef.Store(c.Output("dx"), dx)
	if !c.Facts.Frozen {
		opdef.Store(c.Output("dweight"), dweight)
	}
}

// Forward returns y [T,D] and rstd [T].
func Forward[F opdef.Float](f core.Facts, x, weight []F) (y, rstd []F) {
	D := f.Dim
	y = make([]F, len(x))
	for from := 0; from < len(x); from += D {
		row := x[from : from+D]
		r := reciprocalRMS(f, row)
		rstd = append(rstd, r)
		for i, v := range row {
			y[from+i] = normalized(f, v*r) * (F(f.Offset) + weight[i])
		}
	}
	return y, rstd
}

// Gradient returns dx [T,D] and dweight [D]. It computes rstd again, because
// the saved one has only the precision of float32.
func Gradient[F opdef.Float](f core.Facts, dy, x, weight []F) (dx, dweight []F) {
	D := f.Dim
	dx, dweight = make([]F, len(x)), make([]F, D)
	for from := 0; from < len(x); from += D {
		row := x[from : from+D]
		r := reciprocalRMS(f, row)
		var mean F // of g*n
		for i, v := range row {
			dyi := dy[from+i]
			dweight[i] += dyi * normalized(f, v*r)
			mean += dyi * (F(f.Offset) + weight[i]) * (v * r) / F(D)
		}
		for i, v := range row {
			g := dy[from+i] * (F(f.Offset) + weight[i])
			dx[from+i] = r * (g - v*r*mean)
		}
	}
	return dx, dweight
}

func reciprocalRMS[F opdef.Float](f core.Facts, row []F) F {
	return F(1 / math.Sqrt(float64(opdef.Dot(row, row)/F(len(row))+F(f.Eps))))
}

// normalized returns n as the weight multiplies it.
func normalized[F opdef.Float](f core.Facts, n F) F {
	if f.Cast == core.CastBeforeWeight {
		return opdef.Rounded(f.DType, n)
	}
	return n
}

// Fill makes offset + weight something around 1.
func Fill(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	if a.Name == "weight" {
		for i := range v {
			v[i] = v[i]/2 + float32(1-in.Facts.Offset)
		}
	}
}

// Cases have values whose squares are almost too large, and too small.
func Cases(f core.Facts, add opdef.Adder) {
	large, small := Scales(f)
	add("large", 5, opdef.Scaled("x", large))
	add("small", 5, opdef.Scaled("x", small))
}

// Scales are factors whose square is almost too large, and too small.
func Scales(f core.Facts) (large, small float32) {
	if f.DType == core.Float16 {
		return 1e4, 1e-4
	}
	return 1e12, 1e-12
}

// Extremes: each epsilon with tokens whose mean square is far below it, about it, and
// far above; tokens of zeros; and one element that outweighs all others.
func Extremes(f core.Facts, all opdef.Adder) {
	add := func(kind string, edit opdef.Edit) {
		facts := f
		all(kind, opdef.LadderTokens, edit, func(f *core.Facts) { *f = facts })
	}
	for _, eps := range []float64{0, 1e-12, 1e-9, 1e-8, 1e-7, 1e-5, 1e-3, 1} {
		f.Eps = eps
		around := math.Log2(math.Sqrt(max(eps, 0x1p-20)))
		if eps > 0 {
			around = math.Log2(math.Sqrt(eps))
		}
		low, high := max(-20, around-6), min(11, around+6)
		if f.DType == core.Float16 && around < -16 {
			continue // what is so small has no digits left there
		}
		add("epsilon beside the mean", opdef.Each(func(t, _ int, v float64) float64 {
			return v * math.Exp2(math.Round(low+(high-low)*float64(t)/opdef.LadderTokens))
		}, "x", "residual"))
	}
	f.Eps = 1e-6
	add("tokens of all scales", opdef.Ladders(f.DType, 2, "x", "residual"))
	if f.DType != core.Float16 {
		add("smallest numbers", opdef.Each(func(_, _ int, v float64) float64 {
			return v * 4 * opdef.Smallest(f.DType) * 256
		}, "x", "residual"))
	}
	add("one large element", opdef.Each(func(t, i int, v float64) float64 {
		if i == t%9 {
			return 3000 * v
		}
		return v
	}, "x"))
}

// Terms are those of the norm of x; dh is another term of dx, where there is one.
func Terms(in *opdef.Inputs, pass core.Pass, output string, x []float64) []float64 {
	if pass == core.Forward {
		return nil
	}
	f, dy, dh, weight := in.Facts, in.Wide("dy"), in.Wide("dh"), in.Wide("weight")
	D := f.Dim
	dx, dweight := make([]float64, len(x)), make(opdef.Squares, D)
	for from := 0; from < len(x); from += D {
		sum := 0.0
		for _, v := range x[from : from+D] {
			sum += v * v
		}
		r := 1 / math.Sqrt(sum/float64(D)+f.Eps)
		mean := 0.0 // of |g*n|
		for i := range D {
			mean += math.Abs(dy[from+i]*(float64(f.Offset)+weight[i])*x[from+i]*r) / float64(D)
		}
		for i := range D {
			n, g := x[from+i]*r, dy[from+i]*(float64(f.Offset)+weight[i])
			dx[from+i] = r * math.Hypot(g, n*mean)
			if dh != nil {
				dx[from+i] = math.Hypot(dx[from+i], dh[from+i])
			}
			dweight.Add(i, dy[from+i]*n)
		}
	}
	if output == "dx" {
		return dx
	}
	return dweight.Roots()
}
