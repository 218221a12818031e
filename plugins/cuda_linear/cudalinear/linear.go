package cudalinear

import (
	"context"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
	"github.com/seed98097648/tune/plugins/cuda_linear/cuda"
)

// linear is the kernel of the op linear. With R the rank of the adapter, A = lora_a [R,D] and B = lora_b [N,R],
//
//	u = scale * x A^T;  v = scale * dy B
//	y = x weight^T + u B^T + bias
//	dx = dy weight + v A;  dA = v^T x;  dB = dy^T u
type linear struct {
	kernel
	nf4 vector.NF4
}

func newLinear(d *cuda.Device) core.Kernel {
	k := newKernel(d, core.Linear, "a linear layer with its bias and its adapter", "dweight")
	k.info.DTypes = append(slices.Clone(dtypes), core.NF4)
	return &linear{kernel: k}
}

// Forward computes y.
func (k *linear) Forward(_ context.Context, c *core.Call) error {
	return k.run(c, func(p pass) {
		x, all, a := p.load("x"), p.layers(partOf(c, "weight", &k.nf4)), p.adapter()
		y := p.New(p.T, c.Facts.Out)
		all[0].y = y
		p.forward(x, all)
		if a.R > 0 {
			p.Multiply(cuda.Product{M: p.T, N: c.Facts.Out, K: a.R, A: p.down(a, x), B: a.b, TransB: true, C: y, Alpha: 1,
				Accumulate: true})
		}
		p.storeWith(y, p.T, "y", p.bias("bias"))
	})
}

// Backward computes the gradients.
func (k *linear) Backward(_ context.Context, c *core.Call) error {
	return k.run(c, func(p pass) {
		dy, all, a := p.load("dy"), p.layers(partOf(c, "weight", &k.nf4)), p.adapter()
		x := p.xOfBackward(a.R > 0)
		all[0].y = dy
		dx := p.backward(x, all)
		if a.R > 0 {
			p.backwardAdapter(a, x, dy, dx)
		}
		p.store(dx, p.T, "dx")
		if c.Facts.Bias && !c.Facts.Frozen {
			vector.SumRows(c.Output("dbias").Float32s(), c.Input("dy"))
		}
	})
}

// adapter is that of a call, on the device; without rank there is none.
type adapter struct {
	R     int
	a, b  cuda.Matrix
	scale float32
}

func (p pass) adapter() adapter {
	if p.Facts.Rank == 0 {
		return adapter{}
	}
	return adapter{p.Facts.Rank, p.load("lora_a"), p.load("lora_b"), float32(p.Facts.Scale)}
}

// down computes u.
func (p pass) down(a adapter, x cuda.Matrix) cuda.Matrix {
	u := p.New(p.T, a.R)
	p.Multiply(cuda.Product{M: p.T, N: a.R, K: p.D, A: x, B: a.a, TransB: true, C: u, Alpha: a.scale})
	return u
}

// backwardAdapter stores the gradients of the adapter, and adds what x has by it to dx.
func (p pass) backwardAdapter(a adapter, x, dy, dx cuda.Matrix) {
	N, R := p.Facts.Out, a.R
	u, v, da, db := p.down(a, x), p.New(p.T, R), p.New(R, p.D), p.New(N, R)
	p.Multiply(cuda.Product{M: p.T, N: R, K: N, A: dy, B: a.b, C: v, Alpha: a.scale})
	p.Multiply(cuda.Product{M: p.T, N: p.D, K: R, A: v, B: a.a, C: dx, Alpha: 1, Accumulate: true})
	p.Multiply(cuda.Product{M: R, N: p.D, K: p.T, A: v, TransA: true, B: x, C: da, Alpha: 1})
	p.Multiply(cuda.Product{M: N, N: R, K: p.T, A: dy, TransA: true, B: u, C: db, Alpha: 1})
	p.store(da, R, "dlora_a")
	p.store(db, N, "dlora_b")
}
