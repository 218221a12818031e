package rmsnorm

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// maxBlocks bounds the partial sums of dweight.
const maxBlocks = 64

// Backward computes, with n as in Forward and g = dy*(offset + weight),
//
//	dx = rstd*(g - n*mean(g*n))     the mean is what the derivative of rstd takes off
//	dx = dh + that                  add_rms_norm; it is the gradient of residual, too
//	dweight = sum over T of dy*n
//
// The sum goes over blocks of tokens whose size depends on T alone, and then over the
// blocks in order, so that it has the same bits for any number of threads. A frozen
// weight has the sums of the blocks, which come with dx, but not theirs.
func (k *Kernel) Backward(_ context.Context, c *core.Call) error {
	x, dh := "x", core.Tensor{}
	if k.Add {
		x, dh = "h", c.Input("dh")
	}
	T, D, w := c.Tokens(), c.Facts.Dim, gain(c)
	size := max(16, (T+maxBlocks-1)/maxBlocks) // of a block, in tokens
	blocks := (T + size - 1) / size
	sums, rows := vector.Grow(&k.sums, blocks*D), vector.Grow(&k.rows, blocks*D)
	vector.Parallel(blocks, grain/(size*D), func(lo, hi int) {
		r := newRows(c, c.Input(x), dh, w, rows[lo*D:][:D])
		for b := lo; b < hi; b++ {
			sum := sums[b*D : (b+1)*D]
			clear(sum)
			for t := b * size; t < min((b+1)*size, T); t++ {
				r.backward(t, sum)
			}
		}
	})
	if !c.Facts.Frozen {
		addRows(c.Output("dweight").Float32s(), sums)
	}
	return nil
}

// addRows writes the sum of the rows of x to dst, adding neighbours first: the error of
// such a sum grows with the logarithm of the number of rows. It overwrites x.
func addRows(dst, x []float32) {
	D := len(dst)
	for n := len(x) / D; n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			vector.Add(x[i*D:][:D], x[2*i*D:][:D], x[(2*i+1)*D:][:D])
		}
		if n%2 == 1 {
			copy(x[n/2*D:][:D], x[(n-1)*D:])
		}
	}
	clear(dst) // there may be no rows
	copy(dst, x)
}

// rows computes one row of dx at a time.
type rows struct {
	f         core.Facts
	stream    vector.Stream
	dy, x, dx core.Tensor
	dh        core.Tensor // absent in rms_norm
	rstd      []float32
	w         []float32 // [D]
	d, n, g   []float32 // [D]: dy, x and then n, and dx, widened
	e         []float32 // [D]: dh, widened
	bits      []uint16  // [D]
}

func newRows(c *core.Call, x, dh core.Tensor, w, g []float32) *rows {
	r := &rows{f: c.Facts, stream: vector.StreamFor(c.Work().Bytes), dy: c.Input("dy"), x: x, dh: dh, dx: c.Output("dx"),
		rstd: c.Input("rstd").Float32s(), w: w, g: g}
	if D := len(w); c.Facts.DType != core.Float32 {
		r.d, r.n, r.e, r.bits = make([]float32, D), make([]float32, D), make([]float32, D), make([]uint16, D)
	}
	return r
}

// backward writes dx of token t and adds its share of dweight to sum.
func (r *rows) backward(t int, sum []float32) {
	D, rstd := len(r.w), r.rstd[t]
	if r.f.DType == core.Float32 { // where rounding to storage does nothing
		dy, x, dx := r.dy.Float32s()[t*D:][:D], r.x.Float32s()[t*D:][:D], r.dx.Float32s()[t*D:][:D]
		mean := rstd * vector.Dot3(dy, r.w, x) / float32(D)
		if r.dh.IsZero() {
			r.stream.NormGrad(dx, sum, dy, x, r.w, rstd, mean)
			return
		}
		vector.Stream(false).NormGrad(r.g, sum, dy, x, r.w, rstd, mean)
		vector.Add(dx, r.g, r.dh.Float32s()[t*D:][:D])
		return
	}
	vector.Load(r.d, r.dy, t*D)
	vector.Load(r.n, r.x, t*D)
	mean := rstd * vector.Dot3(r.d, r.w, r.n) / float32(D)
	if r.f.Cast != core.CastBeforeWeight {
		vector.Stream(false).NormGrad(r.g, sum, r.d, r.n, r.w, rstd, mean)
		r.store(t)
		return
	}
	// dx takes n unrounded, dweight as it was multiplied.
	vector.Scale(r.n, r.n, rstd)
	vector.Mul(r.g, r.d, r.w)
	vector.Scale(r.g, r.g, rstd)
	vector.Axpy(-rstd*mean, r.n, r.g)
	r.store(t)
	round(r.f, r.n, r.bits)
	vector.MulAdd(sum, r.d, r.n)
}

// store adds dh to dx of token t, if there is one, and rounds it to storage.
func (r *rows) store(t int) {
	if !r.dh.IsZero() {
		vector.Load(r.e, r.dh, t*len(r.w))
		vector.Add(r.g, r.g, r.e)
	}
	vector.Store(r.dx, r.g, t*len(r.w))
}
