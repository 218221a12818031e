package pre

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/plugins/npu_fused_rmsnorm/rmsnorm"
	"github.com/seed98097648/tune/plugins/npu_fused_rope/rope"
)

// norm is one of the three norms of a call.
type norm struct {
	facts      core.Facts
	gain, bias []float32 // the bias may be nil
}

// newNorm returns the norm whose inputs' names begin so.
func newNorm(c *core.Call, prefix string) norm {
	n := norm{facts: c.Facts, gain: rmsnorm.Gain(c.Facts, c.Input(prefix+"norm_weight"))}
	if c.Facts.NormBias {
		n.bias = c.Input(prefix + "norm_bias").Float32s()
	}
	return n
}

// row replaces a row by its norm as it would be stored; bits is room for as many elements.
func (n norm) row(x []float32, bits []uint16) {
	rstd := rmsnorm.ReciprocalRoot(n.facts, x)
	if n.facts.Cast == core.CastBeforeWeight && n.facts.DType != core.Float32 {
		vector.Scale(x, x, rstd)
		vector.Round(x, n.facts.DType, bits)
		vector.Mul(x, x, n.gain)
	} else {
		vector.Stream(false).ScaleMul(x, x, n.gain, rstd)
	}
	if n.bias != nil {
		vector.Add(x, x, n.bias)
	}
	vector.Round(x, n.facts.DType, bits)
}

// turn rotates the heads of q or k, which y is as the layer gives it, after their norms.
func turn(c *core.Call, part string, y []float32) {
	f, d, half := c.Facts, c.Facts.HeadDim, c.Facts.RotaryDim/2
	width := len(y) / max(c.Tokens(), 1)
	cos, sin, positions := c.Input("cos").Float32s(), c.Input("sin").Float32s(), c.Input("positions").Int32s()
	var heads norm
	if f.QKNorm {
		heads = newNorm(c, part+"_")
	}
	vector.Parallel(c.Tokens(), grain/max(width, 1), func(lo, hi int) {
		bits := make([]uint16, width)
		for t := lo; t < hi; t++ {
			row, at := y[t*width:][:width], int(positions[t])*half
			vector.Round(row, f.DType, bits)
			for h := 0; f.QKNorm && h < width; h += d {
				heads.row(row[h:h+d], bits)
			}
			rope.RotateRow(f, false, row, row, cos[at:at+half], sin[at:at+half])
		}
	})
}
