//go:build ignore

package core

// RMSNorm is y = x * rstd * (offset + weight), rstd = 1/sqrt(mean(x^2) + eps).
const RMSNorm Op = "rms_norm"

var rmsNorm = contract{op: RMSNorm, weights: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.Dim > 0, "dim must be positive")
		need(f.Eps >= 0, "eps must not be negative")
		need(f.Offset == 0 || f.Offset == 1, "offset must be 0 or 1")
		need(f.Cast == CastBeforeWeight || f.Cast == CastAfterWeight, "cast must be before_weight or after_weight")
	},
	signature: rmsNormSignature,
	work: func(pass Pass, f Facts, t, _ float64) Work {
		if f.Frozen { // two operations of the nine are for the weight's gradient
			return elementwise(pass, t*float64(f.Dim), 4, 7)
		}
		return elementwise(pass, t*float64(f.Dim), 4, 9)
	},
}

func rmsNormSignature(pass Pass, f Facts) Signature {
	a, w := f.DType, f.WeightDType
	x := Arg{Name: "x", DType: a, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: w, Shape: Shape{f.Dim}}
	rstd := Arg{Name: "rstd", DType: Float32, Shape: Shape{DimT}, Saved: true}
	if pass == Forward {
		return Signature{In: []Arg{x, weight}, Out: []Arg{named(x, "y"), rstd}}
	}
	return Signature{
		In:  []Arg{named(x, "dy"), x, weight, rstd},
		Out: append([]Arg{named(x, "dx")}, gradients(f, weight)...),
	}
}
