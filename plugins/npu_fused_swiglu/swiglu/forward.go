package swiglu

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Forward computes y.
func (Kernel) Forward(_ context.Context, c *core.Call) error {
	I := c.Facts.Intermediate
	gate, up := halves(c.Facts, c.Input, "")
	y, stream := c.Output("y"), vector.StreamFor(c.Work().Bytes)
	forSpans(c.Tokens(), I, func(buf *scratch, t, i, n int) {
		if c.Facts.DType == core.Float32 {
			stream.SwiGLU(y.Float32s()[t*I+i:][:n], gate.at(t, i, n), up.at(t, i, n))
			return
		}
		g, u := buf[0][:n], buf[1][:n]
		vector.Load(g, gate.Tensor, gate.index(t, i))
		vector.Load(u, up.Tensor, up.index(t, i))
		vector.Stream(false).SwiGLU(u, g, u)
		vector.Store(y, u, t*I+i)
	})
	return nil
}

// half is one half of a gate and up pair, in either layout: row t starts at element
// t*stride + from.
type half struct {
	core.Tensor
	stride, from int
}

// index returns where column i of row t is.
func (h half) index(t, i int) int { return t*h.stride + h.from + i }

// at returns n columns of row t, from column i, of a float32 tensor.
func (h half) at(t, i, n int) []float32 { return h.Float32s()[h.index(t, i):][:n] }

// halves finds gate and up, or with prefix d their gradients, among named tensors.
func halves(f core.Facts, named func(string) core.Tensor, prefix string) (gate, up half) {
	I := f.Intermediate
	if f.Layout == core.Packed {
		both := named(prefix + "gate_up")
		return half{both, 2 * I, 0}, half{both, 2 * I, I}
	}
	return half{named(prefix + "gate"), I, 0}, half{named(prefix + "up"), I, 0}
}

const (
	span  = 1 << 10 // elements of a row computed at a time, so that they stay in the cache
	grain = 1 << 12 // elements below which another goroutine does not pay
)

// scratch holds a span of each tensor that a pass reads, in float32.
type scratch [3][span]float32

// forSpans calls f for each span of a [tokens, width] tensor, n elements from column i
// of row t, on all cores.
func forSpans(tokens, width int, f func(s *scratch, t, i, n int)) {
	each := (width + span - 1) / span
	vector.Parallel(tokens*each, grain/min(width, span), func(lo, hi int) {
		buf := new(scratch)
		for s := lo; s < hi; s++ {
			t, i := s/each, s%each*span
			f(buf, t, i, min(span, width-i))
		}
	})
}
