package ops

import "github.com/seed98097648/tune/core"

// addRMSNormOp is
//
//	h = x + residual;  y = rms_norm of h, which is an output and so rounded
//	dx = dh + dx of rms_norm;  the gradient of residual is the same
//
// What it is tried with is that of rms_norm.
var addRMSNormOp = &Op{Name: core.AddRMSNorm,
	Single: runAddRMSNorm[float32], Double: runAddRMSNorm[float64],
	Usual: rmsNormOp.Usual, Changes: rmsNormOp.Changes, Kinds: rmsNormOp.Kinds, Variants: rmsNormOp.Variants,
	Fill:      fillNorm,
	NotFinite: notFinite("x", "residual", "dy", "dh"),
	Zeros:     []string{"x", "residual"},
	Cases: func(f core.Facts, add Adder) {
		normCases(f, add)
		large, _ := normScales(f)
		add("large residual", 5, scaled("residual", large))
		add("residual cancels x", 5, canceled)
	},
	Extremes: normExtremes, Axes: rmsNormOp.Axes, Large: rmsNormOp.Large,
	Terms: func(in *Inputs, pass core.Pass, output string) []float64 {
		if pass == core.Forward {
			return nil
		}
		return in.normTerms(pass, output, in.wide("h"))
	},
	Stack: func(f core.Facts) *Stack {
		s := rmsNormOp.Stack(f)
		s.Next["h"] = "residual"
		return s
	},
	TokenWise: true,
	Shapes:    rmsNormOp.Shapes, Tokens: rmsNormOp.Tokens,
}

func runAddRMSNorm[F float](c *core.Call) {
	weight := values[F](c.Input("weight"))
	if c.Pass == core.Forward {
		h := add(c.Facts, values[F](c.Input("x")), values[F](c.Input("residual")))
		y, rstd := rmsNorm(c.Facts, h, weight)
		store(c.Output("y"), y)
		store(c.Output("h"), h)
		store(c.Output("rstd"), rstd)
		return
	}
	dx, dweight := rmsNormGradient(c.Facts, values[F](c.Input("dy")), values[F](c.Input("h")), weight)
	axpy(dx, 1, values[F](c.Input("dh")))
	store(c.Output("dx"), dx)
	if !c.Facts.Frozen {
		store(c.Output("dweight"), dweight)
	}
}

// add returns h as it is stored, because the norm is that of the stored one.
func add[F float](f core.Facts, x, residual []F) []F {
	h := make([]F, len(x))
	for i, v := range x {
		h[i] = rounded(f.DType, v+residual[i])
	}
	return h
}

// canceled makes the residual the opposite of x.
func canceled(in map[string][]core.Tensor) {
	v := make([]float32, in["x"][0].Elems())
	in["x"][0].Load(v, 0)
	for i := range v {
		v[i] = -v[i]
	}
	in["residual"][0].Store(v, 0)
}
