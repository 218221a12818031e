//go:build ignore

package core

// QKV is the three linear layers before attention, q, k and v, of one input.
const QKV Op = "qkv"

var qkv = contract{op: QKV, weights: true, int8: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0, "dim must be positive")
		need(f.HeadDim > 0 && f.Heads > 0 && f.KVHeads > 0, "head_dim, heads and kv_heads must be positive")
	},
	signature: qkvSignature,
	work:      qkvWork,
}

// qkvSignature: each of the three has what linear has, without an adapter.
func qkvSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	var y, dy, weights, scales, biases []Arg
	for _, name := range []string{"q", "k", "v"} {
		rows := f.KVHeads * f.HeadDim
		if name == "q" {
			rows = f.Heads * f.HeadDim
		}
		y = append(y, Arg{Name: name, DType: f.DType, Shape: Shape{DimT, rows}})
		dy = append(dy, Arg{Name: "d" + name, DType: f.DType, Shape: Shape{DimT, rows}})
		weights = append(weights, Arg{Name: name + "_weight", DType: f.WeightDType, Shape: Shape{rows, f.Dim}})
		if f.WeightDType == Int8 {
			scales = append(scales, Arg{Name: name + "_weight_scale", DType: Float32, Shape: Shape{rows}})
		}
		if f.Bias {
			biases = append(biases, Arg{Name: name + "_bias", DType: Float32, Shape: Shape{rows}})
		}
	}
	in := append(weights[:3:3], scales...)
	if pass == Forward {
		return Signature{In: append(append([]Arg{x}, in...), biases...), Out: y}
	}
	if !f.Frozen {
		dy = append(dy, x)
	}
	return Signature{In: append(dy, in...),
		Out: append([]Arg{named(x, "dx")}, gradients(f, append(weights, biases...)...)...)}
}

// qkvWork is that of a linear layer with the rows of all three.
func qkvWork(pass Pass, f Facts, t, positions float64) Work {
	f.Out = (f.Heads + 2*f.KVHeads) * f.HeadDim
	w := linearWork(pass, f, t, positions)
	if pass == Backward { // three products are added to one dx
		w.Elementwise += 2 * t * float64(f.Dim)
	}
	return w
}
