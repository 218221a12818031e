package crosscheck

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// qkv judges each of the three layers as linear is, and dx, the sum of what each has for it.
func qkv(c *core.Call) (found []worst) {
	var layers []*layer
	for _, name := range []string{"q", "k", "v"} {
		layers = append(layers, newLayer(c, name, name+"_weight", name+"_bias"))
	}
	if c.Pass == core.Forward {
		for _, l := range layers {
			found = append(found, l.forward()...)
		}
		return found
	}
	tokens, dim := c.Tokens(), c.Facts.Dim
	r, sum, limits := random(dim), make([]float32, tokens*directions), make([]float64, tokens)
	var x, thin []float32
	if !c.Facts.Frozen {
		x = c.Input("x").Float32s()
		thin = along(dense(x, dim), tokens, dim, r)
	}
	for _, l := range layers {
		dy := c.Input("d" + l.y).Float32s()
		simd.Add(sum, sum, along(dense(dy, l.out), tokens, l.out, along(l.matrix, l.out, dim, r)))
		for t := range limits {
			limits[t] += norm2(dy[t*l.out:][:l.out]) * l.weightNorm
		}
		if x != nil {
			columns := columnNorms(core.FromFloat32(dy, tokens, l.out), tokens, l.out)
			found = append(found, l.weightGradients(dy, thin, r, columns, norm2(x))...)
		}
	}
	dx, most := named("dx"), relative(layers[0].out+layers[1].out+layers[2].out, dim)
	seeRows(dx, c.Output("dx"), dim, r, sum, func(t int) float64 { return within(most, limits[t]) })
	return append(dx, found...)
}
