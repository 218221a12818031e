// Package addrmsnorm is the op add_rms_norm,
//
//	h = x + residual;  y = rms_norm of h, which is an output and so rounded
//	dx = dh + dx of rms_norm;  the gradient of residual is the same
//
// What it is tried with is that of rms_norm.
package addrmsnorm

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	rmsnorm "github.com/seed98097648/tune/internal/ops/rms_norm"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.AddRMSNorm,
	Single: runAddRMSNorm[float32], Double: runAddRMSNorm[float64],
	Usual: rmsnorm.Op.Usual, Changes: rmsnorm.Op.Changes, Kinds: rmsnorm.Op.Kinds, Variants: rmsnorm.Op.Variants,
	Fill:      rmsnorm.Fill,
	NotFinite: opdef.NotFinite("x", "residual", "dy", "dh"),
	Zeros:     []string{"x", "residual"},
	Cases: func(f core.Facts, add opdef.Adder) {
		rmsnorm.Cases(f, add)
		large, _ := rmsnorm.Scales(f)
		add("large residual", 5, opdef.Scaled("residual", large))
		add("residual cancels x", 5, func(in map[string][]core.Tensor) {
			opdef.Store(in["residual"][0], opdef.Times(-1, opdef.Values[float64](in["x"][0])))
		})
	},
	Extremes: rmsnorm.Extremes, Axes: rmsnorm.Op.Axes, Large: rmsnorm.Op.Large,
	Terms: func(in *opdef.Inputs, pass core.Pass, output string) []float64 {
		if pass == core.Forward {
			return nil
		}
		return rmsnorm.Terms(in, pass, output, in.Wide("h"))
	},
	Stack: func(f core.Facts) *opdef.Stack {
		s := rmsnorm.Op.Stack(f)
		s.Next["h"] = "residual"
		return s
	},
	TokenWise: true,
	Shapes:    rmsnorm.Op.Shapes, Tokens: rmsnorm.Op.Tokens,
	Recordings: []string{"add_rmsnorm"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_rmsnorm/rmsnorm", Kernel: "&Kernel{Add: true}"},
}

func runAddRMSNorm[F opdef.Float](c *core.Call) {
	weight := opdef.Values[F](c.Input("weight"))
	if c.Pass == core.Forward {
		h := add(c.Facts, opdef.Values[F](c.Input("x")), opdef.Values[F](c.Input("residual")))
		y, rstd := rmsnorm.Forward(c.Facts, h, weight)
		opdef.Store(c.Output("y"), y)
		opdef.Store(c.Output("h"), h)
		opdef.Store(c.Output("rstd"), rstd)
		return
	}
	dx, dweight := rmsnorm.Gradient(c.Facts, opdef.Values[F](c.Input("dy")), opdef.Values[F](c.Input("h")), weight)
	opdef.Axpy(dx, 1, opdef.Values[F](c.Input("dh")))
	opdef.Store(c.Output("dx"), dx)
	if !c.Facts.Frozen {
		opdef.Store(c.Output("dweight"), dweight)
	}
}

// add returns h as it is stored, because the norm is that of the stored one.
func add[F opdef.Float](f core.Facts, x, residual []F) []F {
	h := make([]F, len(x))
	for i, v := range x {
		h[i] = opdef.Rounded(f.DType, v+residual[i])
	}
	return h
}
