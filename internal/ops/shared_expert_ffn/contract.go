//go:build ignore

package core

// SharedExpertFFN is y = down(silu(gate x) * (up x)), the feed-forward block that every token goes through, with
// int8 weights and activations: whole numbers are multiplied and added up exactly.
const SharedExpertFFN Op = "shared_expert_ffn"

var sharedExpertFFN = contract{op: SharedExpertFFN, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		fits := func(n int) bool { return n > 0 && n <= maxInt8Terms }
		need(fits(f.Dim) && fits(f.Intermediate),
			"dim and intermediate must be positive, and below 131072, so that sums fit int32")
		need(f.Layout == Separate || f.Layout == Packed, "layout must be separate or packed")
		need(f.Activation != "", "activation must be named")
	},
	signature: sharedExpertFFNSignature,
	work: func(_ Pass, f Facts, t, _ float64) Work {
		d, i := float64(f.Dim), float64(f.Intermediate)
		// A token becomes int8, then what swiglu gives does, and sums become numbers again.
		return Work{Products: 6 * t * d * i, Elementwise: t * (6*d + 14*i)}
	},
}

// sharedExpertFFNSignature: weights are int8 whatever the activations are, and never get a gradient.
func sharedExpertFFNSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	gate := Arg{Name: "gate", DType: Int8, Shape: Shape{f.Intermediate, f.Dim}}
	weights := []Arg{gate, named(gate, "up")}
	if f.Layout == Packed {
		weights = []Arg{{Name: "gate_up", DType: Int8, Shape: Shape{2 * f.Intermediate, f.Dim}}}
	}
	weights = append(weights, Arg{Name: "down", DType: Int8, Shape: Shape{f.Dim, f.Intermediate}})
	in := append([]Arg{x}, weights...)
	for _, w := range weights {
		in = append(in, Arg{Name: w.Name + "_scale", DType: Float32, Shape: w.Shape[:1]})
	}
	return Signature{In: in, Out: []Arg{named(x, "y")}}
}
