// Package rope is the op rope,
//
//	for each pair (a, b) of a head, c and s from the tables at its position:
//	a' = a*c - b*s;  b' = b*c + a*s;  the gradient is the rotation by -s
package rope

import (
	"math"
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// verifyPositions is how many rows the tables have in kerneltest.Verify: more than those that
// models were first made for.
const verifyPositions = 8194

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.RoPE,
	Single: runRoPE[float32], Double: runRoPE[float64],
	Usual: core.Facts{HeadDim: 16, RotaryDim: 16, Heads: 4, KVHeads: 2, Pairing: core.Half},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Pairing = core.Interleaved },
		func(f *core.Facts) { f.RotaryDim = 8 },
	},
	Kinds: []core.Facts{
		{HeadDim: 8, RotaryDim: 8, Heads: 2, KVHeads: 1, Pairing: core.Half},
		{HeadDim: 8, RotaryDim: 8, Heads: 2, KVHeads: 1, Pairing: core.Interleaved},
	},
	Variants:  ropeVariants(),
	Positions: 11,
	Fill:      fillTables,
	Indices: func(in *opdef.Inputs, rng *rand.Rand, v []int32) {
		for t := range v {
			v[t] = int32(rng.IntN(in.Positions))
		}
	},
	NotFinite: opdef.NotFinite("q", "k", "dq_out", "dk_out"),
	Zeros:     []string{"q", "k"},
	Extremes:  ropeExtremes,
	Axes:      ropeAxes(),
	Large: []opdef.Large{
		{Tokens: 1030, Change: func(f *core.Facts) { f.Heads, f.KVHeads, f.HeadDim, f.RotaryDim = 12, 6, 70, 66 }},
	},
	Terms: func(in *opdef.Inputs, _ core.Pass, output string) []float64 { return ropeTerms(in, output) },
	Stack: func(core.Facts) *opdef.Stack {
		return &opdef.Stack{Next: map[string]string{"q_out": "q", "k_out": "k"}}
	},
	Verify: func(u *opdef.Use) {
		u.Tokens, u.Positions, u.Edit = 12, verifyPositions, FarPositions
	},
	TokenWise: true,
	Shapes: []opdef.Shape{
		{Name: "x(32+8)x128 half",
			Facts: core.Facts{Pairing: core.Half, HeadDim: 128, RotaryDim: 128, Heads: 32, KVHeads: 8}},
	},
	Tokens:     []int{128, 2048},
	Batch:      positions(func(t, _, _ int) int { return t }), // one row of text
	Recordings: []string{"rope"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_rope/rope", Kernel: "new(Kernel)"},
}

func ropeVariants() (all []core.Facts) {
	for _, pairing := range []core.Pairing{core.Half, core.Interleaved} {
		for _, s := range [][4]int{{2, 2, 1, 1}, {16, 16, 4, 2}, {10, 4, 3, 1}, {7, 6, 6, 3},
			{64, 32, 2, 2}, {128, 128, 2, 1}} {
			all = append(all, core.Facts{Pairing: pairing, HeadDim: s[0], RotaryDim: s[1], Heads: s[2], KVHeads: s[3]})
		}
	}
	return all
}

func runRoPE[F opdef.Float](c *core.Call) {
	cos, sin := opdef.Values[F](c.Input("cos")), opdef.Values[F](c.Input("sin"))
	positions := c.Input("positions").Int32s()
	names := [2][2]string{{"q", "q_out"}, {"k", "k_out"}}
	if c.Pass == core.Backward {
		names = [2][2]string{{"dq_out", "dq"}, {"dk_out", "dk"}}
		for i := range sin {
			sin[i] = -sin[i]
		}
	}
	for i, heads := range []int{c.Facts.Heads, c.Facts.KVHeads} {
		x := opdef.Values[F](c.Input(names[i][0]))
		Rotate(c.Facts, heads, x, cos, sin, positions)
		opdef.Store(c.Output(names[i][1]), x)
	}
}

// Rotate rotates x [T,heads,head_dim] in place by the tables' angles, cos and sin
// [P,rotary_dim/2]. What lies beyond rotary_dim in a head stays as it is.
func Rotate[F opdef.Float](f core.Facts, heads int, x, cos, sin []F, positions []int32) {
	half := f.RotaryDim / 2
	for t, p := range positions {
		c, s := cos[int(p)*half:][:half], sin[int(p)*half:][:half]
		for h := range heads {
			head := x[(t*heads+h)*f.HeadDim:][:f.HeadDim]
			for i := range half {
				a, b := pair(f, i)
				head[a], head[b] = head[a]*c[i]-head[b]*s[i], head[b]*c[i]+head[a]*s[i]
			}
		}
	}
}

// pair returns which two elements of a head rotate by angle i.
func pair(f core.Facts, i int) (a, b int) {
	if f.Pairing == core.Interleaved {
		return 2 * i, 2*i + 1
	}
	return i, i + f.RotaryDim/2
}

// fillTables makes the tables those of true rotations.
func fillTables(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	switch a.Name {
	case "cos":
		for i := range v {
			v[i] = float32(math.Cos(float64(v[i])))
		}
	case "sin": // of the same angles, up to the rounding of cos
		cos := in.Named["cos"][0].Float32s()
		for i := range v {
			v[i] = float32(math.Copysign(math.Sqrt(1-float64(cos[i])*float64(cos[i])), float64(v[i])))
		}
	}
}

func ropeAxes() []opdef.Axis {
	far := []int{8194, 258, 1026, 2050, 3077, 4098, 4102, 32770, 65542, 131074}
	return []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Heads, f.HeadDim, f.RotaryDim = 1, 2, 2 }),
		{Name: "rotary_dim", Rests: opdef.EveryRest / 2, Large: []int{258, 128, 192, 514}, Set: func(u *opdef.Use, n int) {
			u.Facts.RotaryDim, u.Facts.HeadDim = 2*n, 2*n
		}},
		{Name: "head_dim past rotary_dim", Rests: opdef.SomeRests, Large: []int{130, 64, 514},
			Set: func(u *opdef.Use, n int) {
				u.Facts.HeadDim = u.Facts.RotaryDim + n
			}},
		{Name: "heads", Rests: opdef.EveryRest / 2, Large: []int{258, 128},
			Set: func(u *opdef.Use, n int) { u.Facts.Heads = n }},
		{Name: "kv_heads", Rests: opdef.EveryRest / 2, Large: []int{258, 128},
			Set: func(u *opdef.Use, n int) { u.Facts.KVHeads = n }},
		{Name: "positions", Rests: opdef.EveryRest, Step: 7, Large: far, Set: func(u *opdef.Use, n int) {
			u.Positions, u.Tokens, u.Edit = n, 12, FarPositions
		}},
		{Name: "tokens in order", Large: []int{1029, 130, 514}, Set: func(u *opdef.Use, n int) {
			u.Tokens, u.Positions, u.Edit = n, 5*n, risingPositions
		}},
	}
}

// positions sets those of T tokens in tables of P rows.
func positions(f func(t, T, P int) int) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		P, v := in["cos"][0].Shape[0], in["positions"][0].Int32s()
		for t := range v {
			v[t] = int32(f(t, len(v), P))
		}
	}
}

// risingPositions rise with the tokens, as those of a text do, up to the end of the tables:
// the tokens of high numbers have high positions, too.
var risingPositions = positions(func(t, T, P int) int { return (t+1)*P/T - 1 })

// FarPositions are the ends of the tables, the powers of two between them, and single steps
// back from the end.
var FarPositions = positions(func(t, T, P int) int {
	switch {
	case t == T-1:
		return 0
	case t%2 == 0:
		return max(P-1-t/2, 0)
	}
	return P >> ((t + 1) / 2)
})

func ropeExtremes(f core.Facts, add opdef.Adder) {
	d := f.DType
	add("positions in order", 29, positions(func(t, _, P int) int { return t % P }))
	add("positions backwards", 29, positions(func(t, _, P int) int { return (10*29 - t) % P }))
	add("one position", 29, positions(func(_, _, P int) int { return 10 % P }))
	add("positions in steps", 29, positions(func(t, _, P int) int { return t / 3 * 4 % P }))
	add("rotations that scale", 29, opdef.Both(opdef.Scaled("cos", 1.375), opdef.Scaled("sin", -0.625)))
	add("no rotation", 29, opdef.Both(opdef.Each(func(_, _ int, _ float64) float64 { return 1 }, "cos"),
		opdef.Each(func(_, _ int, _ float64) float64 { return 0 }, "sin")))
	add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(d, 1, "q", "k"))
	add("smallest numbers", 9, opdef.Each(opdef.Tiny(d), "q", "k", "dq_out", "dk_out"))
}

func ropeTerms(in *opdef.Inputs, output string) []float64 {
	name := map[string]string{"q_out": "q", "k_out": "k", "dq": "dq_out", "dk": "dk_out"}[output]
	return Terms(in, in.Wide(name))
}

// Terms returns the size of the terms of x [T,heads,head_dim] after its rotation, given those of x.
func Terms(in *opdef.Inputs, x []float64) []float64 {
	f, cos, sin := in.Facts, in.Wide("cos"), in.Wide("sin")
	half, positions := f.RotaryDim/2, in.Named["positions"][0].Int32s()
	per := len(x) / max(len(positions), 1)
	for t, p := range positions {
		for h := 0; h < per; h += f.HeadDim {
			head := x[t*per+h:][:f.HeadDim]
			for i := range half {
				a, b := pair(f, i)
				c, s := cos[int(p)*half+i], sin[int(p)*half+i]
				head[a], head[b] = math.Hypot(head[a]*c, head[b]*s), math.Hypot(head[b]*c, head[a]*s)
			}
		}
	}
	return x
}
