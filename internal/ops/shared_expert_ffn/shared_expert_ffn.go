// Package sharedexpertffn is the op shared_expert_ffn, with linear_w8a8's dynamic rows q, s of int8,
//
//	q, s = int8 of x_t;  g = (gate q * s) * gate_scale;  u = (up q * s) * up_scale
//	h    = g*s(g)*u
//	p, r = int8 of h;    y_t = (down p * r) * down_scale
package sharedexpertffn

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.SharedExpertFFN,
	Single: run[float32], Double: run[float64],
	Usual: use(64, 96, core.Separate),
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Layout = core.Packed },
		func(f *core.Facts) { f.Activation = "gelu" },
	},
	Kinds: []core.Facts{use(5, 7, core.Separate), use(5, 7, core.Packed)},
	Variants: []core.Facts{use(1, 1, core.Separate), use(7, 5, core.Packed), use(64, 131, core.Separate),
		use(131, 64, core.Packed), use(33, 200, core.Separate)},
	Fill:      fill,
	NotFinite: opdef.NotFinite("x"),
	Zeros:     []string{"x"},
	Cases: func(_ core.Facts, add opdef.Adder) {
		add("large", 5, opdef.Scaled("x", 40))
		add("numbers at the ends of int8", 9, atTheEnds)
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 2, "x"))
		add("a nan among numbers that become int8", 5, opdef.SingleNaN("gate_scale", "gate_up_scale"),
			func(f *core.Facts) { f.Intermediate = 37 })
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
	Terms: terms, Borders: borders,
	Verify: func(u *opdef.Use) { // fewer rows of large weights, and what saturates
		f := &u.Facts
		f.Intermediate, u.Edit = min(f.Intermediate, max(2, opdef.VerifyElems/max(1, 3*f.Dim))), atTheEnds
	},
	Shapes: []opdef.Shape{{Name: "x1024x3072", Facts: use(1024, 3072, core.Separate)},
		{Name: "x4096x1408", Facts: use(4096, 1408, core.Separate)}},
	Tokens:     []int{1, 128, 1024},
	Recordings: []string{"shared_expert_ffn_w8a8"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_shared_expert/sharedexpert", Kernel: "new(Kernel)"},
}

func use(dim, intermediate int, layout core.Layout) core.Facts {
	return core.Facts{Dim: dim, Intermediate: intermediate, Activation: "silu", Layout: layout}
}

// fill keeps g, u and y near 1: whole numbers of standard normal values are near 40.
func fill(in *opdef.Inputs, _ *rand.Rand, a core.Arg, v []float32) {
	terms := in.Facts.Dim
	if strings.HasPrefix(a.Name, "down") {
		terms = in.Facts.Intermediate
	}
	switch {
	case strings.HasSuffix(a.Name, "_scale"):
		opdef.FillScale(terms, v)
	case a.Name != "x":
		opdef.FillWeight(a, terms, v)
	}
}

// atTheEnds makes every second row of the weights, and numbers of every second token, the largest and smallest that
// there are, of one sign in runs, so that sums which are kept in int16 on the way saturate; and opdef.HalfWay.
func atTheEnds(in map[string][]core.Tensor) {
	for _, name := range []string{"gate", "up", "gate_up", "down"} {
		for _, weight := range in[name] {
			cols := weight.Shape[1]
			for i, w := 0, weight.Int8s(); i < len(w); i++ {
				if i/cols%2 == 0 {
					w[i] = [2]int8{127, -128}[i%cols/8%2]
				}
			}
		}
	}
	opdef.Each(func(t, i int, v float64) float64 {
		if t%2 == 0 {
			return 10 * float64(1-2*(i/8%2))
		}
		return v
	}, "x")(in)
	opdef.HalfWay(in)
}

func run[F opdef.Float](c *core.Call) {
	f, x := c.Facts, opdef.Values[float64](c.Input("x"))
	b := blockOf(f, c.Input)
	y := make([]F, c.Tokens()*f.Dim)
	for t := range c.Tokens() {
		q, s := opdef.QuantiseRow(f.DType, b.hidden(x[t*f.Dim:][:f.Dim]))
		opdef.Dequantised(y[t*f.Dim:][:f.Dim], opdef.Int8Sums(b.down, q, nil), F(s), b.downScale, nil)
	}
	opdef.Store(c.Output("y"), y)
}

// block is what a call has besides tokens.
type block struct {
	core.Facts
	gate, up, down                []int8
	gateScale, upScale, downScale []float32
}

// blockOf reads the weights in either layout.
func blockOf(f core.Facts, named func(string) core.Tensor) block {
	b := block{Facts: f, down: named("down").Int8s(), downScale: named("down_scale").Float32s()}
	if f.Layout == core.Separate {
		b.gate, b.gateScale = named("gate").Int8s(), named("gate_scale").Float32s()
		b.up, b.upScale = named("up").Int8s(), named("up_scale").Float32s()
		return b
	}
	both, scale, half := named("gate_up").Int8s(), named("gate_up_scale").Float32s(), f.Intermediate*f.Dim
	b.gate, b.up, b.gateScale, b.upScale = both[:half], both[half:], scale[:f.Intermediate], scale[f.Intermediate:]
	return b
}

func blockIn(in *opdef.Inputs) block {
	return blockOf(in.Facts, func(name string) core.Tensor { return in.Named[name][0] })
}

// hidden is h of a token, in float64 in any arithmetic: which whole numbers it becomes must not depend on that.
func (b *block) hidden(x []float64) []float64 {
	g, u := b.gateUp(x)
	return opdef.SwiGLU(g, u)
}

func (b *block) gateUp(x []float64) (g, u []float64) {
	g, u = make([]float64, b.Intermediate), make([]float64, b.Intermediate)
	q, s := opdef.QuantiseRow(b.DType, x)
	opdef.Dequantised(g, opdef.Int8Sums(b.gate, q, nil), s, b.gateScale, nil)
	opdef.Dequantised(u, opdef.Int8Sums(b.up, q, nil), s, b.upScale, nil)
	return g, u
}

// terms: sums of whole numbers are exact. What y is multiplied by is the largest h, of which silu multiplies the error
// of g by 1+|g| at most.
func terms(in *opdef.Inputs, _ core.Pass, _ string) []float64 {
	b, y := blockIn(in), make([]float64, in.Tokens*in.Facts.Dim)
	b.each(in, func(t int, g, h []float64, most int) {
		q, s := opdef.QuantiseRow(b.DType, h)
		out := y[t*b.Dim:][:b.Dim]
		opdef.Dequantised(out, opdef.Int8Sums(b.down, q, nil), s, b.downScale, nil)
		for d, v := range out {
			out[d] = math.Abs(v) * (1 + math.Abs(g[most]))
		}
	})
	return y
}

// each calls f for each token, with the gate, h, and which element of that is the largest.
func (b *block) each(in *opdef.Inputs, f func(t int, g, h []float64, most int)) {
	x := in.Wide("x")
	for t := range in.Tokens {
		g, u := b.gateUp(x[t*b.Dim:][:b.Dim])
		h, most := opdef.SwiGLU(g, u), 0
		for i, v := range h {
			if math.Abs(v) > math.Abs(h[most]) {
				most = i
			}
		}
		f(t, g, h, most)
	}
}

// borders: h is what float32 makes of it, and an element may lie so near the middle between two whole multiples of
// their scale that the error of that decides which it becomes. Sums before it are exact, and then rounded three
// times in each of g and u; silu multiplies the error of g by 1+|g| at most; the exponential, the quotient and the
// products round some more.
func borders(in *opdef.Inputs, _ core.Pass, _ string) []float64 {
	b, moved := blockIn(in), make([]float64, in.Tokens*in.Facts.Dim)
	b.each(in, func(t int, g, h []float64, most int) {
		_, s := opdef.QuantiseRow(b.DType, h)
		off := func(i int) float64 { return (16 + 4*math.Abs(g[i])) * 0x1p-24 }
		for i, v := range h {
			quotient := math.Abs(v / s)
			if beyond := quotient - math.Floor(quotient); math.Abs(beyond-0.5) > quotient*(off(i)+off(most)) {
				continue
			}
			for d := range b.Dim {
				moved[t*b.Dim+d] += math.Abs(float64(b.down[d*b.Intermediate+i]) * s * float64(b.downScale[d]))
			}
		}
	})
	return moved
}
