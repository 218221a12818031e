//go:build ignore

package core

// AttentionPre is all of a decoder's layer before its attention: the residual added, the norm, q, k and v of that,
// norms of the heads of q and k, and their rotation.
const AttentionPre Op = "attention_pre"

var attentionPre = contract{op: AttentionPre, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		rmsNorm.valid(f, need)
		rope.valid(f, need)
		switch f.Scaling {
		case "":
			need(f.WeightDType == Int8 || f.WeightDType == Float32 || f.WeightDType == BFloat16 || f.WeightDType == Float16 ||
				f.WeightDType == Float64, "weight_dtype must be a floating-point type or int8")
		default:
			need(f.WeightDType == Int8, "weights must be int8 where activations become that")
			linear := f
			linear.Out = f.Heads * f.HeadDim
			linearW8A8.valid(linear, need)
		}
	},
	signature: attentionPreSignature,
	work: func(pass Pass, f Facts, t, positions float64) Work {
		w := qkvWork(pass, f, t, positions)
		heads := f
		heads.Dim = f.HeadDim
		parts := []Work{rmsNorm.work(pass, f, t, positions), rope.work(pass, f, t, positions)}
		if f.Residual {
			parts = append(parts, elementwise(pass, t*float64(f.Dim), 1, 0))
		}
		if f.QKNorm {
			parts = append(parts, rmsNorm.work(pass, heads, t*float64(f.Heads+f.KVHeads), positions))
		}
		for _, p := range parts {
			w.Elementwise += p.Elementwise
		}
		return w
	},
}

// attentionPreSignature: weights of norms are float32. Without static scaling the layers have what qkv has.
func attentionPreSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	layers, turn := qkvSignature(Forward, f), ropeSignature(Forward, f)
	s := Signature{In: []Arg{x}, Out: []Arg{named(turn.In[0], "q"), named(turn.In[1], "k"), named(turn.In[1], "v")}}
	if f.Residual {
		s.In, s.Out = append(s.In, named(x, "residual")), append(s.Out, named(x, "h"))
	}
	norm := func(prefix string, size int) {
		s.In = append(s.In, Arg{Name: prefix + "norm_weight", DType: Float32, Shape: Shape{size}})
		if f.NormBias {
			s.In = append(s.In, Arg{Name: prefix + "norm_bias", DType: Float32, Shape: Shape{size}})
		}
	}
	norm("", f.Dim)
	if f.Scaling == StaticScaling {
		s.In = append(s.In, Arg{Name: "input_scale", DType: Float32, Shape: Shape{1}},
			Arg{Name: "input_offset", DType: Int32, Shape: Shape{1}})
		for _, w := range layers.In[1:4] {
			part, rows := w.Name[:1], w.Shape[:1]
			s.In = append(s.In, w, Arg{Name: part + "_deq_scale", DType: Float32, Shape: rows},
				Arg{Name: part + "_quant_bias", DType: Int32, Shape: rows})
		}
	} else {
		s.In = append(s.In, layers.In[1:]...)
	}
	if f.QKNorm {
		norm("q_", f.HeadDim)
		norm("k_", f.HeadDim)
	}
	s.In = append(s.In, turn.In[2:]...) // the tables, and positions
	return s
}
