//go:build ignore

package core

import "math"

// MoEGate chooses the top-k experts of each token by its router's logits, and weighs them.
const MoEGate Op = "moe_gate"

var moeGate = contract{op: MoEGate,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Experts > 0 && f.TopK > 0 && f.TopK <= f.Experts, "top_k must be between 1 and experts")
		need(f.Scoring == ScoringSoftmax || f.Scoring == ScoringSigmoid, "scoring must be softmax or sigmoid")
		need(f.Groups > 0 && f.Experts%max(f.Groups, 1) == 0, "groups must divide experts")
		need(f.Groups == 1 || f.Experts >= 2*f.Groups, "a group must have two experts at least")
		need(f.TopGroups > 0 && f.TopGroups <= f.Groups, "top_groups must be between 1 and groups")
		need(f.Scale > 0 && f.Scale <= math.MaxFloat32, "scale must be positive")
	},
	signature: moeGateSignature,
	// Of a logit: its score, the sum and a comparison; backward the score and the gradient.
	work: func(pass Pass, f Facts, t, _ float64) Work {
		return elementwise(pass, t*float64(f.Experts), 4, 6)
	},
}

// moeGateSignature: the outputs are inputs of moe_experts, by the same names. The weights
// come first, because no gradient passes through the ids.
func moeGateSignature(pass Pass, f Facts) Signature {
	logits := Arg{Name: "logits", DType: f.DType, Shape: Shape{DimT, f.Experts}}
	weights := Arg{Name: "routing_weights", DType: Float32, Shape: Shape{DimT, f.TopK}}
	ids := Arg{Name: "expert_ids", DType: Int32, Shape: Shape{DimT, f.TopK}, Choices: f.Experts}
	bias := Arg{Name: "bias", DType: Float32, Shape: Shape{f.Experts}}
	if f.DType == Float64 {
		weights.DType, bias.DType = Float64, Float64
	}
	if pass == Forward {
		s := Signature{In: []Arg{logits}, Out: []Arg{weights, ids}}
		if f.Bias {
			s.In = append(s.In, bias)
		}
		return s
	}
	ids.Saved, ids.Points = true, atExperts(f)
	return Signature{In: []Arg{named(weights, "drouting_weights"), logits, ids}, Out: []Arg{named(logits, "dlogits")}}
}
