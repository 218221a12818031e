package ops

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
)

// swigluOp is
//
//	y = gate*s(gate)*up
//	dgate = dy*up*(s + gate*s*(1-s));  dup = dy*gate*s
var swigluOp = &Op{Name: core.SwiGLU,
	Single: runSwiGLU[float32], Double: runSwiGLU[float64],
	Usual: core.Facts{Intermediate: 64, Activation: "silu", Layout: core.Separate},
	Changes: []func(*core.Facts){
		func(f *core.Facts) { f.Layout = core.Packed },
		func(f *core.Facts) { f.Activation = "gelu" },
	},
	Kinds: []core.Facts{
		{Intermediate: 9, Activation: "silu", Layout: core.Separate},
		{Intermediate: 9, Activation: "silu", Layout: core.Packed},
	},
	Variants:  swigluVariants(),
	NotFinite: notFinite("gate", "up", "gate_up", "dy"),
	Zeros:     []string{"gate", "up", "gate_up"},
	Cases: func(f core.Facts, add Adder) {
		name := "gate"
		if f.Layout == core.Packed {
			name = "gate_up"
		}
		add("large", 5, scaled(name, 75))
	},
	Extremes: swigluExtremes,
	Axes: []Axis{
		{"tokens", everyRest, 7, long, func(u *Use, n int) {
			if u.Tokens = n; n > 4102 {
				u.Facts.Intermediate = 2
			}
		}},
		{"intermediate", everyRest, 7, wide, func(u *Use, n int) { u.Facts.Intermediate = n }},
	},
	Large: []Large{{2054, func(f *core.Facts) { f.Intermediate = 2054 }}},
	Terms: func(in *Inputs, _ core.Pass, output string) []float64 { return in.swigluTerms(output) },
	Stack: func(f core.Facts) *Stack {
		if f.Layout == core.Packed {
			return nil
		}
		return &Stack{Next: map[string]string{"y": "up"}, Around: map[string]float64{"gate": 1}}
	},
	TokenWise: true,
	Shapes: []Shape{swigluShape(3072, core.Separate), swigluShape(11008, core.Separate),
		swigluShape(3072, core.Packed)},
	Tokens: []int{128, 2048},
}

func swigluShape(intermediate int, layout core.Layout) Shape {
	name := fmt.Sprintf("x%d", intermediate)
	if layout == core.Packed {
		name += " packed"
	}
	return Shape{name, core.Facts{Intermediate: intermediate, Activation: "silu", Layout: layout}}
}

func swigluVariants() (all []core.Facts) {
	for _, layout := range []core.Layout{core.Separate, core.Packed} {
		for _, I := range []int{1, 7, 64, 131, 1027} {
			all = append(all, core.Facts{Intermediate: I, Activation: "silu", Layout: layout})
		}
	}
	return all
}

func runSwiGLU[F float](c *core.Call) {
	gate, up := gateUp[F](c)
	if c.Pass == core.Forward {
		store(c.Output("y"), swiglu(gate, up))
		return
	}
	dgate, dup := swigluGradient(values[F](c.Input("dy")), gate, up)
	if c.Facts.Layout == core.Packed {
		store(c.Output("dgate_up"), interleaveRows(dgate, dup, c.Facts.Intermediate))
		return
	}
	store(c.Output("dgate"), dgate)
	store(c.Output("dup"), dup)
}

// gateUp reads gate and up, each [T,I], from either layout.
func gateUp[F float](c *core.Call) (gate, up []F) {
	if c.Facts.Layout == core.Separate {
		return values[F](c.Input("gate")), values[F](c.Input("up"))
	}
	return halves(values[F](c.Input("gate_up")), c.Facts.Intermediate)
}

// halves separates rows of two halves, n elements each.
func halves[F float](both []F, n int) (a, b []F) {
	for ; len(both) > 0; both = both[2*n:] {
		a, b = append(a, both[:n]...), append(b, both[n:2*n]...)
	}
	return a, b
}

// interleaveRows is the inverse: rows of a and b, I elements each, in turn.
func interleaveRows[F float](a, b []F, I int) []F {
	var both []F
	for ; len(a) > 0; a, b = a[I:], b[I:] {
		both = append(append(both, a[:I]...), b[:I]...)
	}
	return both
}

func swiglu[F float](gate, up []F) []F {
	y := make([]F, len(gate))
	for i, g := range gate {
		y[i] = g * sigmoid(g) * up[i]
	}
	return y
}

func swigluGradient[F float](dy, gate, up []F) (dgate, dup []F) {
	dgate, dup = make([]F, len(gate)), make([]F, len(gate))
	for i, g := range gate {
		s := sigmoid(g)
		dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
		dup[i] = dy[i] * g * s
	}
	return dgate, dup
}

// swigluExtremes: where silu is all or nothing, and where it is about its argument. Between
// -110 and -80, where exponentials are no float32 numbers or hardly any, nothing is asked.
func swigluExtremes(f core.Facts, add Adder) {
	d := f.DType
	at := []float64{-1000, -750, -710, -120, -79, -60, -40, -20, -10, -5, -1, -1e-2, -1e-4, 0, 1e-4, 1e-2,
		1, 5, 10, 17, 20, 40, 80, 89, 100, 120, 700, 710, 750, 1000, 5000}
	around := func(t, _ int, v float64) float64 {
		a := at[t%len(at)]
		return a * (1 + v/256)
	}
	add("far out on the curve", len(at), both(each(around, "gate"), halfOf("gate_up", 0, around)))
	add("tokens of all scales", ladderTokens, ladders(d, 2, "gate", "up", "gate_up"))
	add("smallest numbers", 9, both(each(tiny(d), "up"), halfOf("gate_up", 1, tiny(d))))
	if d == core.Float16 {
		add("past the largest number", 9, each(func(_, _ int, v float64) float64 {
			return math.Copysign(1000, v)
		}, "gate", "up", "gate_up"))
	}
}

// swigluTerms: dgate vanishes near -1.28, where the two terms of silu's derivative cancel.
// An exponential multiplies the rounding of what it is taken of by that.
func (in *Inputs) swigluTerms(output string) []float64 {
	gate, up, dy := in.wide("gate"), in.wide("up"), in.wide("dy")
	if in.Facts.Layout == core.Packed {
		gate, up = halves(in.wide("gate_up"), in.Facts.Intermediate)
	}
	y, dgate, dup := make([]float64, len(gate)), make([]float64, len(gate)), make([]float64, len(gate))
	for i, g := range gate {
		silu := math.Abs(g / (1 + math.Exp(-g)))
		y[i] = math.Abs(up[i]) * silu * (1 + math.Abs(g))
		dgate[i] = math.Abs(dy[i]*up[i]) * siluTerms(g) * (1 + math.Abs(g))
		dup[i] = math.Abs(dy[i]) * silu * (1 + math.Abs(g))
	}
	switch {
	case output == "dgate_up":
		return interleaveRows(dgate, dup, in.Facts.Intermediate)
	case output == "dgate":
		return dgate
	case output == "dup":
		return dup
	}
	return y
}
