//go:build ignore

package core

// AddRMSNorm is h = x + residual and y = RMSNorm of h; it gives both, y and h.
const AddRMSNorm Op = "add_rms_norm"

var addRMSNorm = contract{op: AddRMSNorm, weights: true,
	valid:     func(f Facts, need func(ok bool, what string)) { rmsNorm.valid(f, need) },
	signature: addRMSNormSignature,
	work: func(pass Pass, f Facts, t, positions float64) Work { // that of the norm, and an addition
		w := rmsNorm.work(pass, f, t, positions)
		w.Elementwise += t * float64(f.Dim)
		return w
	},
}

// addRMSNormSignature: y comes first, because it is the op's value, and h second, because
// somebody else reads it too. dx is the gradient of both terms of the sum.
func addRMSNormSignature(pass Pass, f Facts) Signature {
	x := Arg{Name: "x", DType: f.DType, Shape: Shape{DimT, f.Dim}}
	weight := Arg{Name: "weight", DType: f.WeightDType, Shape: Shape{f.Dim}}
	rstd := Arg{Name: "rstd", DType: Float32, Shape: Shape{DimT}, Saved: true}
	h := named(x, "h")
	if pass == Forward {
		return Signature{In: []Arg{x, named(x, "residual"), weight}, Out: []Arg{named(x, "y"), h, rstd}}
	}
	h.Saved = true
	dx := named(x, "dx")
	dx.Also = "residual"
	return Signature{
		In:  []Arg{named(x, "dy"), named(x, "dh"), h, weight, rstd},
		Out: append([]Arg{dx}, gradients(f, weight)...),
	}
}
