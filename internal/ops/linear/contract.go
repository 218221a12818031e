//go:build ignore

package core

import "math"

// Linear is y = x weight^T + bias + scale * (x A^T) B^T: a linear layer and its low-rank adapter.
const Linear Op = "linear"

var linear = contract{op: Linear, weights: true, int8: true, nf4: true, products: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0 && f.Out > 0, "dim and out must be positive")
		need(f.Rank >= 0, "rank must not be negative")
		need((f.Rank > 0) == (f.Scale != 0), "an adapter has a rank and a scale that is not 0, and nothing else has either")
		need(math.Abs(f.Scale) <= math.MaxFloat32, "scale must be finite")
	},
	signature: linearSignature,
	work:      linearWork,
}

// linearSignature: weights have their own storage, which for int8 is whole numbers, those of
// each row to be multiplied by an element of weight_scale, and for NF4 what NF4Sizes says. Bias
// and adapter are float32, as they are small, and as adapters are trained. A frozen weight without
// an adapter spares the backward pass x.
func linearSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	y := Arg{Name: "y", DType: f.DType, Shape: Shape{DimT, f.Out}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Out, f.Dim}}
	weights := []Arg{weight}
	switch f.WeightDType {
	case Int8:
		weights = append(weights, Arg{Name: "weight_scale", DType: Float32, Shape: Shape{f.Out}})
	case NF4:
		blocks, scales := NF4Sizes(f.Dim * f.Out)
		weights = append(weights, Arg{Name: "weight_absmax", DType: Int8, Shape: Shape{blocks}},
			Arg{Name: "weight_scale", DType: Float32, Shape: Shape{scales}})
	}
	bias := Arg{Name: "bias", DType: Float32, Shape: Shape{f.Out}}
	a := Arg{Name: "lora_a", DType: Float32, Shape: Shape{f.Rank, f.Dim}}
	b := Arg{Name: "lora_b", DType: Float32, Shape: Shape{f.Out, f.Rank}}
	if pass == Forward {
		in := append([]Arg{x}, weights...)
		if f.Bias {
			in = append(in, bias)
		}
		if f.Rank > 0 {
			in = append(in, a, b)
		}
		return Signature{In: in, Out: []Arg{y}}
	}
	in, out := []Arg{named(y, "dy")}, append([]Arg{named(x, "dx")}, gradients(f, weight)...)
	if !f.Frozen || f.Rank > 0 {
		in = append(in, x)
	}
	in = append(in, weights...)
	if f.Bias {
		out = append(out, gradients(f, bias)...)
	}
	if f.Rank > 0 {
		in = append(in, a, b)
		f.Frozen = false
		out = append(out, gradients(f, a, b)...)
	}
	return Signature{In: in, Out: out}
}

// linearWork: a product for y, and backward one for each gradient. The adapter has two small
// ones forward, and four backward; x A^T is not saved, so that backward has it once more.
func linearWork(pass Pass, f Facts, t, _ float64) Work {
	product := 2 * t * float64(f.Dim) * float64(f.Out)
	a, b := 2*t*float64(f.Rank)*float64(f.Dim), 2*t*float64(f.Rank)*float64(f.Out)
	var w Work
	switch {
	case pass == Forward:
		w.Products = product + a + b
	case f.Frozen:
		w.Products = product + 3*a + 2*b
	default:
		w.Products = 2*product + 3*a + 2*b
	}
	if f.Bias && (pass == Forward || !f.Frozen) {
		w.Elementwise = t * float64(f.Out)
	}
	return w
}
