//go:build ignore

package core

// LinearW8A8 is y = scale * (q weight^T) + bias with int8 q of x and int8 weights: whole numbers are multiplied
// and added up exactly.
const LinearW8A8 Op = "linear_w8a8"

// maxInt8Terms is how many products of two int8 a sum may have, so that none leaves int32.
const maxInt8Terms = 1<<17 - 1

var linearW8A8 = contract{op: LinearW8A8, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Dim <= maxInt8Terms, "dim must be positive, and below 131072, so that sums fit int32")
		need(f.Out > 0, "out must be positive")
		need(f.Scaling == StaticScaling || f.Scaling == DynamicScaling, "scaling must be static or dynamic")
		need(f.Scaling == DynamicScaling || !f.Bias, "bias is for dynamic scaling: static has it in quant_bias")
	},
	signature: linearW8A8Signature,
	work: func(_ Pass, f Facts, t, _ float64) Work {
		w := Work{Products: 2 * t * float64(f.Dim) * float64(f.Out), Elementwise: t * (3*float64(f.Dim) + 3*float64(f.Out))}
		if f.Scaling == StaticScaling {
			w.Elementwise -= t * float64(f.Out)
		}
		return w
	},
}

// linearW8A8Signature: weights are int8 whatever the activations are, and never get a gradient.
func linearW8A8Signature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	in := []Arg{{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}},
		{Name: "weight", DType: Int8, Shape: Shape{f.Out, f.Dim}}}
	row := Arg{DType: Float32, Shape: Shape{f.Out}}
	if f.Scaling == StaticScaling {
		in = append(in, Arg{Name: "input_scale", DType: Float32, Shape: Shape{1}},
			Arg{Name: "input_offset", DType: Int32, Shape: Shape{1}},
			named(row, "deq_scale"), Arg{Name: "quant_bias", DType: Int32, Shape: Shape{f.Out}})
	} else {
		in = append(in, named(row, "weight_scale"))
	}
	if f.Bias {
		in = append(in, named(row, "bias"))
	}
	return Signature{In: in, Out: []Arg{{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Out}}}}
}
