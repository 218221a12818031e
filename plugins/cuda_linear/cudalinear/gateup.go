package cudalinear

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
)

// gateUp is the kernel of the op gate_up_swiglu: g and u, side by side for each token, come back from the device, as
// they are saved, and swiglu is the host's.
type gateUp struct {
	kernel
	g, d []float32 // [T,2I]: g and u where they are not saved in float32, and their gradients
}

func newGateUp(d *cuda.Device) core.Kernel {
	return &gateUp{kernel: newKernel(d, core.GateUpSwiGLU, "the linear layers of gate and up, and swiglu",
		"dgate", "dup", "dgate_up")}
}

// layers are gate and up, or one layer of both.
func (*gateUp) layers(p pass) []layer {
	names := []string{"gate", "up"}
	if p.Facts.Layout == core.Packed {
		names = []string{"gate_up"}
	}
	var parts []part
	for _, name := range names {
		parts = append(parts, partOf(p.Call, name, nil))
	}
	return p.layers(parts...)
}

// beside has the layers' outputs, or the gradients of these, side by side in y [T,2I].
func beside(all []layer, y cuda.Matrix) []layer {
	first := 0
	for i := range all {
		all[i].y = y.From(first)
		first += all[i].rows
	}
	return all
}

// Forward computes y, and saves g and u unless backward is to compute them again.
func (k *gateUp) Forward(_ context.Context, c *core.Call) error {
	return k.run(c, func(p pass) {
		var saved core.Tensor
		if !c.Facts.Recompute {
			saved = c.Output("gate_up_out")
		}
		gu, y := k.gateAndUp(p, p.load("x"), k.layers(p), saved), c.Output("y")
		k.rows(p, y, func(t int, row []float32) {
			I := c.Facts.Intermediate
			g, u := gu[t*2*I:][:I], gu[t*2*I+I:][:I]
			if row == nil {
				vector.Stream(false).SwiGLU(y.Float32s()[t*I:][:I], g, u)
				return
			}
			vector.Stream(false).SwiGLU(row, g, u)
			vector.Store(y, row, t*I)
		})
	})
}

// rows calls f for each token over all threads, with room for its row of y or dy if that is not float32, unless the
// pass has failed.
func (k *gateUp) rows(p pass, y core.Tensor, f func(t int, row []float32)) {
	if p.Err() != nil {
		return
	}
	I := p.Facts.Intermediate
	vector.Parallel(p.T, grain/I+1, func(lo, hi int) {
		var row []float32
		if y.DType != core.Float32 {
			row = make([]float32, I)
		}
		for t := lo; t < hi; t++ {
			f(t, row)
		}
	})
}

// gateAndUp computes g and u, as they are rounded to storage, and saves them if there is a place for that.
func (k *gateUp) gateAndUp(p pass, x cuda.Matrix, all []layer, saved core.Tensor) []float32 {
	I, d := p.Facts.Intermediate, p.Facts.DType
	m := p.New(p.T, 2*I)
	p.forward(x, beside(all, m))
	gu := vector.Grow(&k.g, p.T*2*I)
	if !saved.IsZero() {
		gu = vector.Wide(&k.g, saved)
	}
	p.Store(m, p.T, func(v []float32, from int) {
		if d != core.Float32 {
			vector.Round(v, d, make([]uint16, len(v)))
			if !saved.IsZero() {
				vector.Store(saved, v, from)
			}
		}
		copy(gu[from:], v)
	})
	p.Flush()
	return gu
}

// Backward computes, with s = s(g),
//
//	dg = dy*u*(s + g*s*(1-s));  du = dy*g*s
//
// of which backward makes the other gradients.
func (k *gateUp) Backward(_ context.Context, c *core.Call) error {
	return k.run(c, func(p pass) {
		I, dy, all := c.Facts.Intermediate, c.Input("dy"), k.layers(p)
		x := p.xOfBackward(c.Facts.Recompute)
		var gu []float32
		if c.Facts.Recompute {
			gu = k.gateAndUp(p, x, all, core.Tensor{})
		} else if saved := c.Input("gate_up_out"); saved.DType == core.Float32 {
			gu = saved.Float32s()
		} else {
			gu = vector.Grow(&k.g, saved.Elems())
			vector.Parallel(len(gu), grain, func(lo, hi int) { vector.Load(gu[lo:hi], saved, lo) })
		}
		d := vector.Grow(&k.d, p.T*2*I)
		k.rows(p, dy, func(t int, row []float32) {
			of, to := gu[t*2*I:][:2*I], d[t*2*I:][:2*I]
			if row == nil {
				row = dy.Float32s()[t*I:][:I]
			} else {
				vector.Load(row, dy, t*I)
			}
			vector.Stream(false).SwiGLUGrad(to[:I], to[I:], row, of[:I], of[I:])
		})
		m := p.Load(p.T, 2*I, func(dst []float32, from int) { copy(dst, d[from:]) })
		p.store(p.backward(x, beside(all, m)), p.T, "dx")
	})
}
