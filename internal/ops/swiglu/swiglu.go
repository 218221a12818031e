// Package swiglu is the op swiglu,
//
//	y = gate*s(a)*up
//	dgate = dy*up*(s + gate*s*(1-s)*a');  dup = dy*gate*s
//
// where a is gate, or for gelu_tanh another function of it: see opdef.Gate.
package swiglu

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.SwiGLU,
	Single: runSwiGLU[float32], Double: runSwiGLU[float64],
	Usual: core.Facts{Intermediate: 64, Activation: "silu", Layout: core.Separate},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Layout = core.Packed },
		func(f *core.Facts) { f.Activation = "gelu" },
	},
	Kinds: []core.Facts{
		{Intermediate: 9, Activation: "silu", Layout: core.Separate},
		{Intermediate: 9, Activation: "silu", Layout: core.Packed},
		{Intermediate: 9, Activation: core.GELUTanh, Layout: core.Separate},
	},
	Variants:  swigluVariants(),
	NotFinite: opdef.NotFinite("gate", "up", "gate_up", "dy"),
	Zeros:     []string{"gate", "up", "gate_up"},
	Cases: func(f core.Facts, add opdef.Adder) {
		name := "gate"
		if f.Layout == core.Packed {
			name = "gate_up"
		}
		add("large", 5, opdef.Scaled(name, 75))
	},
	Extremes: swigluExtremes,
	Axes: []opdef.Axis{
		opdef.TokensAxis(4102, func(f *core.Facts) { f.Intermediate = 2 }),
		{Name: "intermediate", Rests: opdef.EveryRest, Step: 7, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.Intermediate = n }},
	},
	Large: []opdef.Large{{Tokens: 2054, Change: func(f *core.Facts) { f.Intermediate = 2054 }}},
	Terms: func(in *opdef.Inputs, _ core.Pass, output string) []float64 { return swigluTerms(in, output) },
	Stack: func(f core.Facts) *opdef.Stack {
		if f.Layout == core.Packed {
			return nil
		}
		return &opdef.Stack{Next: map[string]string{"y": "up"}, Around: map[string]float64{"gate": 1}}
	},
	TokenWise: true,
	Shapes: []opdef.Shape{swigluShape(3072, core.Separate), swigluShape(11008, core.Separate),
		swigluShape(3072, core.Packed)},
	Tokens:     []int{128, 2048},
	Recordings: []string{"swiglu"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_swiglu/swiglu", Kernel: "new(Kernel)"},
}

func swigluShape(intermediate int, layout core.Layout) opdef.Shape {
	name := fmt.Sprintf("x%d", intermediate)
	if layout == core.Packed {
		name += " packed"
	}
	return opdef.Shape{Name: name, Facts: core.Facts{Intermediate: intermediate, Activation: "silu", Layout: layout}}
}

func swigluVariants() (all []core.Facts) {
	for _, layout := range []core.Layout{core.Separate, core.Packed} {
		for _, I := range []int{1, 7, 64, 131, 1027} {
			for _, activation := range []string{core.SiLU, core.GELUTanh} {
				all = append(all, core.Facts{Intermediate: I, Activation: activation, Layout: layout})
			}
		}
	}
	return all
}

func runSwiGLU[F opdef.Float](c *core.Call) {
	gate, up := gateUp[F](c)
	if c.Pass == core.Forward {
		y := make([]F, len(gate))
		for i, g := range gate {
			a, _ := opdef.Gate(c.Facts.Activation, g)
			y[i] = g * opdef.Sigmoid(a) * up[i]
		}
		opdef.Store(c.Output("y"), y)
		return
	}
	dy, dgate, dup := opdef.Values[F](c.Input("dy")), make([]F, len(gate)), make([]F, len(gate))
	for i, g := range gate {
		a, slope := opdef.Gate(c.Facts.Activation, g)
		s := opdef.Sigmoid(a)
		dgate[i] = dy[i] * up[i] * (s + g*s*(1-s)*slope)
		dup[i] = dy[i] * g * s
	}
	if c.Facts.Layout == core.Packed {
		opdef.Store(c.Output("dgate_up"), opdef.InterleaveRows(dgate, dup, c.Facts.Intermediate))
		return
	}
	opdef.Store(c.Output("dgate"), dgate)
	opdef.Store(c.Output("dup"), dup)
}

// gateUp reads gate and up, each [T,I], from either layout.
func gateUp[F opdef.Float](c *core.Call) (gate, up []F) {
	if c.Facts.Layout == core.Separate {
		return opdef.Values[F](c.Input("gate")), opdef.Values[F](c.Input("up"))
	}
	return opdef.Halves(opdef.Values[F](c.Input("gate_up")), c.Facts.Intermediate)
}

// swigluExtremes: where silu is all or nothing, and where it is about its argument. Between
// -110 and -80, where exponentials are no float32 numbers or hardly any, nothing is asked.
func swigluExtremes(f core.Facts, add opdef.Adder) {
	d := f.DType
	at := []float64{-1000, -750, -710, -120, -79, -60, -40, -20, -10, -5, -1, -1e-2, -1e-4, 0, 1e-4, 1e-2,
		1, 5, 10, 17, 20, 40, 80, 89, 100, 120, 700, 710, 750, 1000, 5000}
	around := func(t, _ int, v float64) float64 {
		a := at[t%len(at)]
		return a * (1 + v/256)
	}
	add("far out on the curve", len(at), opdef.Both(opdef.Each(around, "gate"), halfOf("gate_up", 0, around)))
	add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(d, 2, "gate", "up", "gate_up"))
	add("smallest numbers", 9, opdef.Both(opdef.Each(opdef.Tiny(d), "up"), halfOf("gate_up", 1, opdef.Tiny(d))))
}

// swigluTerms: dgate vanishes near -1.28, where the two terms of silu's derivative cancel.
func swigluTerms(in *opdef.Inputs, output string) []float64 {
	gate, up, dy := in.Wide("gate"), in.Wide("up"), in.Wide("dy")
	if in.Facts.Layout == core.Packed {
		gate, up = opdef.Halves(in.Wide("gate_up"), in.Facts.Intermediate)
	}
	y, dgate, dup := make([]float64, len(gate)), make([]float64, len(gate)), make([]float64, len(gate))
	for i, g := range gate {
		a, slope := opdef.Gate(in.Facts.Activation, g)
		s := opdef.Sigmoid(a)
		act := math.Abs(g * s)
		y[i] = math.Abs(up[i]) * act * opdef.SigmoidTerms(a)
		dgate[i] = math.Abs(dy[i]*up[i]) * math.Hypot(s, g*s*(1-s)*slope) * opdef.SigmoidTerms(a)
		dup[i] = math.Abs(dy[i]) * act * opdef.SigmoidTerms(a)
	}
	switch {
	case output == "dgate_up":
		return opdef.InterleaveRows(dgate, dup, in.Facts.Intermediate)
	case output == "dgate":
		return dgate
	case output == "dup":
		return dup
	}
	return y
}

// halfOf is each for the first or the second half of every row of a packed input.
func halfOf(name string, which int, f func(t, i int, v float64) float64) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		for _, x := range in[name] {
			width := x.Shape[1]
			opdef.Each(func(t, i int, v float64) float64 {
				if i*2/width == which {
					return f(t, i, v)
				}
				return v
			}, name)(in)
		}
	}
}
