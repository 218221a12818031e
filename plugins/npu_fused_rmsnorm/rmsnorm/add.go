package rmsnorm

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// AddKernel implements core.Kernel for add_rms_norm; its zero value is ready. It keeps
// its scratch memory from call to call.
type AddKernel struct {
	partial partial
}

// Info implements core.Kernel.
func (*AddKernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.AddRMSNorm, Version: Version,
		Summary: "residual added and root mean square norm, one pass over memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: all valid facts in float32, bfloat16 and float16.
func (k *AddKernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// Forward computes h, y and rstd, a row at a time: the norm reads h while it is in the
// cache.
func (*AddKernel) Forward(_ context.Context, c *core.Call) error {
	D, w := c.Facts.Dim, gain(c)
	stream := vector.StreamFor(c.Work().Bytes)
	x, residual := c.Input("x"), c.Input("residual")
	y, h, rstd := c.Output("y"), c.Output("h"), c.Output("rstd").Float32s()
	vector.Parallel(c.Tokens(), grain/D, func(lo, hi int) {
		row, other, bits := make([]float32, D), make([]float32, D), make([]uint16, D)
		for t := lo; t < hi; t++ {
			if c.Facts.DType == core.Float32 { // where rounding to storage does nothing
				h := h.Float32s()[t*D:][:D]
				vector.Add(h, x.Float32s()[t*D:][:D], residual.Float32s()[t*D:][:D])
				rstd[t] = reciprocalRoot(c.Facts, h)
				stream.ScaleMul(y.Float32s()[t*D:][:D], h, w, rstd[t])
				continue
			}
			vector.Load(row, x, t*D)
			vector.Load(other, residual, t*D)
			vector.Add(row, row, other)
			vector.Store(h, row, t*D)
			vector.Load(row, h, t*D)
			rstd[t] = reciprocalRoot(c.Facts, row)
			vector.Scale(row, row, rstd[t])
			round(c.Facts, row, bits)
			vector.Mul(row, row, w)
			vector.Store(y, row, t*D)
		}
	})
	return nil
}

// Backward computes dx = dh + dx of the norm at h, which is the gradient of residual too,
// and dweight.
func (k *AddKernel) Backward(_ context.Context, c *core.Call) error {
	k.partial.backward(c, c.Input("h"), c.Input("dh"))
	return nil
}
