package main

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Backward computes, with s as in Forward and its derivative s*(1-s),
//
//	dgate = dy*up*(s + gate*s*(1-s))
//	dup = dy*gate*s
func (k kernel) Backward(ctx context.Context, c *core.Call) error {
	if err := k.check(ctx, c); err != nil {
		return err
	}
	I := c.Facts.Intermediate
	gate, up := halves(c.Facts, c.Input, "")
	dgate, dup := halves(c.Facts, c.Output, "d")
	dy := c.Input("dy")
	forSpans(c.Tokens(), I, func(buf *scratch, t, i, n int) {
		g, u, s, d := buf[0][:n], buf[1][:n], buf[2][:n], buf[3][:n]
		gate.Load(g, t*gate.stride+gate.from+i)
		up.Load(u, t*up.stride+up.from+i)
		dy.Load(d, t*I+i)
		simd.Sigmoid(s, g)
		for j, v := range g {
			silu := v * s[j]
			g[j] = d[j] * u[j] * (s[j] + silu*(1-s[j]))
			u[j] = d[j] * silu
		}
		dgate.Store(g, t*dgate.stride+dgate.from+i)
		dup.Store(u, t*dup.stride+dup.from+i)
	})
	return nil
}
