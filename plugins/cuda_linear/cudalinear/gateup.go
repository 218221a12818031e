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

// layers are gate and up, or one layer of both: their outputs, or the gradients of these, lie side by side in y
// [T,2I].
func (k *gateUp) layers(p pass, y cuda.Matrix) []layer {
	names := []string{"gate", "up"}
	if p.Facts.Layout == core.Packed {
		names = []string{"gate_up"}
	}
	var parts []part
	for _, name := range names {
		parts = append(parts, partOf(p.Call, name, nil))
	}
	all := p.layers(parts...)
	for i := range all {
		all[i].y = y.From(i * p.Facts.Intermediate)
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
		gu, y := k.gateAndUp(p, saved), c.Output("y")
		k.rows(p, func(t int, wide []float32) {
			I := c.Facts.Intermediate
			g, u := gu[t*2*I:][:I], gu[t*2*I+I:][:I]
			if y.DType == core.Float32 {
				wide = y.Float32s()[t*I:][:I]
			}
			vector.Stream(false).SwiGLU(wide, g, u)
			if y.DType != core.Float32 {
				vector.Store(y, wide, t*I)
			}
		})
	})
}

// rows calls f for each token over all threads, with room for as many elements as y has in a row.
func (k *gateUp) rows(p pass, f func(t int, wide []float32)) {
	if p.Err() != nil {
		return
	}
	I := p.Facts.Intermediate
	vector.Parallel(p.T, grain/I+1, func(lo, hi int) {
		wide := make([]float32, I)
		for t := lo; t < hi; t++ {
			f(t, wide)
		}
	})
}

// gateAndUp computes g and u, as they are rounded to storage, and saves them if there is a place for that.
func (k *gateUp) gateAndUp(p pass, saved core.Tensor) []float32 {
	I, d := p.Facts.Intermediate, p.Facts.DType
	x, m := p.load("x"), p.New(p.T, 2*I)
	p.forward(x, k.layers(p, m))
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
		I, dy := c.Facts.Intermediate, c.Input("dy")
		var gu []float32
		if c.Facts.Recompute {
			gu = k.gateAndUp(p, core.Tensor{})
		} else if saved := c.Input("gate_up_out"); saved.DType == core.Float32 {
			gu = saved.Float32s()
		} else {
			gu = vector.Grow(&k.g, saved.Elems())
			vector.Parallel(len(gu), grain, func(lo, hi int) { vector.Load(gu[lo:hi], saved, lo) })
		}
		d := vector.Grow(&k.d, p.T*2*I)
		k.rows(p, func(t int, wide []float32) {
			vector.Load(wide, dy, t*I)
			of, to := gu[t*2*I:][:2*I], d[t*2*I:][:2*I]
			vector.Stream(false).SwiGLUGrad(to[:I], to[I:], wide, of[:I], of[I:])
		})
		m := p.Load(p.T, 2*I, func(dst []float32, from int) { copy(dst, d[from:]) })
		p.store(p.backward(p.xOfBackward(false), k.layers(p, m)), p.T, "dx")
	})
}
