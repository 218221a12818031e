package reference

import "github.com/seed98097648/tune/core"

func runLinearCrossEntropy[F float](c *core.Call) {
	D, V := c.Facts.Dim, c.Facts.Vocab
	x, weight, labels := values[F](c.Input("x")), values[F](c.Input("weight")), c.Input("labels").Int32s()
	losses, dx, dweight := make([]F, len(labels)), make([]F, len(x)), make([]F, len(weight))
	dlosses := make([]F, len(labels))
	if c.Pass == core.Backward {
		dlosses = values[F](c.Input("dlosses"))
	}
	dz := make([]F, V)
	for t, y := range labels {
		if y < 0 {
			continue
		}
		xt := x[t*D:][:D]
		for v := range dz {
			dz[v] = dot(weight[v*D:][:D], xt)
		}
		z := dz[y]
		losses[t] = softmax(dz) - z
		if c.Pass == core.Forward {
			continue
		}
		dz[y]--
		for v := range dz {
			dz[v] *= dlosses[t]
			axpy(dx[t*D:][:D], dz[v], weight[v*D:][:D])
			axpy(dweight[v*D:][:D], dz[v], xt)
		}
	}
	store(c.Output("losses"), losses)
	if c.Pass == core.Backward {
		store(c.Output("dx"), dx)
		if !c.Facts.Frozen {
			store(c.Output("dweight"), dweight)
		}
	}
}
