package main

import "github.com/seed98097648/tune/core"

// uses returns the kinds of use of an op, in small sizes: every value of every fact that
// is not a size, the others as the models here have them. Storage types come first.
func uses(op core.Op) []core.Facts {
	var all []core.Facts
	for _, d := range []core.DType{core.Float32, core.BFloat16, core.Float16} {
		all = append(all, variants(op, core.Facts{DType: d, WeightDType: d})[0])
	}
	return append(all, variants(op, core.Facts{DType: core.Float32, WeightDType: core.Float32})[1:]...)
}

// variants returns the usual use of an op with the given storage, and then those that
// differ from it in one fact.
func variants(op core.Op, f core.Facts) []core.Facts {
	var changes []func(*core.Facts)
	switch op {
	case core.RMSNorm, core.AddRMSNorm:
		f.Dim, f.Eps, f.Cast = 64, 1e-6, core.CastBeforeWeight
		changes = []func(*core.Facts){
			func(f *core.Facts) { f.Offset = 1 },
			func(f *core.Facts) { // float32 has no cast
				f.DType, f.WeightDType, f.Cast = core.BFloat16, core.BFloat16, core.CastAfterWeight
			},
		}
	case core.SwiGLU:
		f.WeightDType, f.Intermediate, f.Activation, f.Layout = core.InvalidDType, 64, "silu", core.Separate
		changes = []func(*core.Facts){
			func(f *core.Facts) { f.Layout = core.Packed },
			func(f *core.Facts) { f.Activation = "gelu" },
		}
	case core.RoPE:
		f.WeightDType, f.HeadDim, f.RotaryDim, f.Heads, f.KVHeads, f.Pairing = core.InvalidDType, 16, 16, 4, 2, core.Half
		changes = []func(*core.Facts){
			func(f *core.Facts) { f.Pairing = core.Interleaved },
			func(f *core.Facts) { f.RotaryDim = 8 },
		}
	case core.MoEGate:
		f.WeightDType, f.Experts, f.TopK = core.InvalidDType, 8, 2
		f.Scoring, f.Groups, f.TopGroups, f.Normalize, f.Scale = core.ScoringSoftmax, 1, 1, true, 1
		changes = []func(*core.Facts){
			func(f *core.Facts) { f.Normalize = false },
			func(f *core.Facts) { f.Scoring = core.ScoringSigmoid },
			func(f *core.Facts) { f.Scoring, f.Bias = core.ScoringSigmoid, true },
			func(f *core.Facts) {
				f.Scoring, f.Bias, f.Groups, f.TopGroups, f.Scale = core.ScoringSigmoid, true, 4, 2, 2.5
			},
		}
	case core.MoEExperts:
		f.Dim, f.Intermediate, f.Experts, f.TopK = 64, 32, 8, 2
		f.Activation, f.Layout, f.Routing = "silu", core.Packed, core.RoutingNormalized
		changes = []func(*core.Facts){
			func(f *core.Facts) { f.Layout = core.PerExpert },
			func(f *core.Facts) { f.Routing = core.RoutingSoftmax },
			func(f *core.Facts) { f.Activation = "gelu" },
		}
	case core.Attention:
		f.WeightDType, f.HeadDim, f.Heads, f.KVHeads = core.InvalidDType, 16, 4, 2
		changes = []func(*core.Facts){func(f *core.Facts) { f.KVHeads = 4 }}
	case core.LinearCrossEntropy:
		f.Dim, f.Vocab = 64, 256
	}
	all := []core.Facts{f}
	for _, change := range changes {
		v := f
		change(&v)
		all = append(all, v)
	}
	return all
}
