//go:build ignore

package core

// SwiGLU is y = silu(gate) * up.
const SwiGLU Op = "swiglu"

var swiGLU = contract{op: SwiGLU,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Intermediate > 0, "intermediate must be positive")
		need(f.Layout == Separate || f.Layout == Packed, "layout must be separate or packed")
		need(f.Activation != "", "activation must be named")
	},
	signature: swigluSignature,
	work: func(pass Pass, f Facts, t, _ float64) Work {
		return elementwise(pass, t*float64(f.Intermediate), 5, 10)
	},
}

func swigluSignature(pass Pass, f Facts) Signature {
	y := Arg{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Intermediate}}
	in := []Arg{named(y, "gate"), named(y, "up")}
	if f.Layout == Packed {
		in = []Arg{{Name: "gate_up", DType: f.DType, Shape: Shape{DimT, 2 * f.Intermediate}}}
	}
	if pass == Forward {
		return Signature{In: in, Out: []Arg{y}}
	}
	out := make([]Arg, len(in))
	for i, a := range in {
		out[i] = named(a, "d"+a.Name)
	}
	return Signature{In: append([]Arg{named(y, "dy")}, in...), Out: out}
}
