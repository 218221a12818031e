package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dgate and dup. The derivative of s is s*(1-s), so
//
//	dgate = dy * up * (s + gate*s*(1-s))
//	dup   = dy * gate*s
func (kernel) Backward(_ context.Context, c *core.Call) error {
	gates, ups := halves(c.Facts, c.Input, "")
	dgates, dups := halves(c.Facts, c.Output, "d")
	dys := rows{c.Input("dy").Float32s(), c.Facts.Intermediate, 0}
	for t := range c.Tokens() {
		gate, up, dy := gates.row(t, c.Facts), ups.row(t, c.Facts), dys.row(t, c.Facts)
		dgate, dup := dgates.row(t, c.Facts), dups.row(t, c.Facts)
		for i, g := range gate {
			s := sigmoid(g)
			dgate[i] = dy[i] * up[i] * (s + g*s*(1-s))
			dup[i] = dy[i] * g * s
		}
	}
	return nil
}
