package swiglu

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Backward computes, with s as in Forward and its derivative s*(1-s),
//
//	dgate = dy*up*(s + gate*s*(1-s))
//	dup = dy*gate*s
func (Kernel) Backward(_ context.Context, c *core.Call) error {
	I := c.Facts.Intermediate
	gate, up := halves(c.Facts, c.Input, "")
	dgate, dup := halves(c.Facts, c.Output, "d")
	dy, stream := c.Input("dy"), vector.StreamFor(c.Work().Bytes)
	forSpans(c.Tokens(), I, func(buf *scratch, t, i, n int) {
		if c.Facts.DType == core.Float32 {
			stream.SwiGLUGrad(dgate.at(t, i, n), dup.at(t, i, n), dy.Float32s()[t*I+i:][:n], gate.at(t, i, n), up.at(t, i, n))
			return
		}
		g, u, d := buf[0][:n], buf[1][:n], buf[2][:n]
		vector.Load(g, gate.Tensor, gate.index(t, i))
		vector.Load(u, up.Tensor, up.index(t, i))
		vector.Load(d, dy, t*I+i)
		vector.Stream(false).SwiGLUGrad(g, u, d, g, u)
		vector.Store(dgate.Tensor, g, dgate.index(t, i))
		vector.Store(dup.Tensor, u, dup.index(t, i))
	})
	return nil
}
