package rope

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward rotates the gradients back: the transpose of the matrix (cos, -sin; sin, cos)
// of a pair is the same with -sin for sin, whether or not cos^2+sin^2 is 1.
func (Kernel) Backward(_ context.Context, c *core.Call) error {
	rotate(c, c.Facts.Heads, c.Input("dq_out"), c.Output("dq"), -1)
	rotate(c, c.Facts.KVHeads, c.Input("dk_out"), c.Output("dk"), -1)
	return nil
}
