package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dq and dk. The matrix of a pair is [c -s; s c], and the gradient is
// multiplied by its transpose, which is the same with -s for s. That holds whatever c and
// s are, also where they carry a scale.
func (kernel) Backward(_ context.Context, c *core.Call) error {
	rotate(c, c.Facts.Heads, c.Output("dq").Float32s(), c.Input("dq_out").Float32s(), -1)
	rotate(c, c.Facts.KVHeads, c.Output("dk").Float32s(), c.Input("dk_out").Float32s(), -1)
	return nil
}
