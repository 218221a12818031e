package rmsnorm

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// maxBlocks bounds the partial sums of dweight.
const maxBlocks = 64

// Backward computes, with n as in Forward and g = dy*(offset + weight),
//
//	dx = rstd*(g - n*mean(g*n))     the mean is what the derivative of rstd takes off
//	dweight = sum over T of dy*n
//
// The sum goes over blocks of tokens whose size depends on T alone, and then over the
// blocks in order, so that it has the same bits for any number of threads.
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	if err := k.check(ctx, c); err != nil {
		return err
	}
	T, D, w := c.Tokens(), c.Facts.Dim, gain(c)
	size := max(16, (T+maxBlocks-1)/maxBlocks) // of a block, in tokens
	blocks := (T + size - 1) / size
	if cap(k.partial) < blocks*D {
		k.partial = make([]float32, blocks*D)
	}
	partial := k.partial[:blocks*D]
	simd.Parallel(blocks, grain/(size*D), func(lo, hi int) {
		r := newRows(c, w)
		for b := lo; b < hi; b++ {
			sum := partial[b*D : (b+1)*D]
			clear(sum)
			for t := b * size; t < min((b+1)*size, T); t++ {
				r.backward(t, sum)
			}
		}
	})
	dweight := c.Output("dweight").Float32s()
	for i := range dweight {
		var sum float64
		for b := range blocks {
			sum += float64(partial[b*D+i])
		}
		dweight[i] = float32(sum)
	}
	return nil
}

// rows computes one row of dx at a time.
type rows struct {
	f          core.Facts
	dy, x, dx  core.Tensor
	rstd       []float32
	w, g, n, d []float32 // [D]; d holds dy
}

func newRows(c *core.Call, w []float32) *rows {
	D := c.Facts.Dim
	return &rows{f: c.Facts, dy: c.Input("dy"), x: c.Input("x"), dx: c.Output("dx"), rstd: c.Input("rstd").Float32s(),
		w: w, g: make([]float32, D), n: make([]float32, D), d: make([]float32, D)}
}

// backward writes dx of token t and adds its share of dweight to sum.
func (r *rows) backward(t int, sum []float32) {
	D := len(r.w)
	if r.f.DType == core.Float32 { // where rounding to storage does nothing
		dy, x, dx := r.dy.Float32s()[t*D:][:D], r.x.Float32s()[t*D:][:D], r.dx.Float32s()[t*D:][:D]
		simd.NormGrad(dx, sum, dy, x, r.w, r.rstd[t], r.rstd[t]*simd.Dot3(dy, r.w, x)/float32(D))
		return
	}
	w, g, n, d := r.w, r.g[:D], r.n[:D], r.d[:D]
	r.dy.Load(d, t*D)
	r.x.Load(n, t*D)
	rstd := r.rstd[t]
	for i, v := range w {
		n[i] *= rstd
		g[i] = d[i] * v
	}
	mean := simd.Dot(g, n) / float32(D)
	for i, v := range n {
		g[i] = rstd * (g[i] - v*mean)
	}
	r.dx.Store(g, t*D)
	round(r.f, n)
	for i, v := range n {
		sum[i] += d[i] * v
	}
}
