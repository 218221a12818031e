package reference

import "github.com/seed98097648/tune/core"

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
