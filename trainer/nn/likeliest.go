package nn

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Likeliest records the token with the largest logit at each place that is scored, the first of equals, and -1 at
// others: [T] of logits [T, V]. It is computed though no loss needs it.
func Likeliest(c *Context, logits *autograd.Value) *autograd.Value {
	t, v := logits.Shape()[0], logits.Shape()[1]
	return c.G.Apply(autograd.Op{Name: "likeliest", Outputs: []autograd.Spec{autograd.Int32(t)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			x, labels, best := in[0].Float32s(), in[1].Int32s(), out[0].Int32s()
			simd.Parallel(t, max(1, grain/v), func(lo, hi int) {
				for r := lo; r < hi; r++ {
					best[r] = -1
					if target(labels, r, c.S) < 0 {
						continue
					}
					row := x[r*v : (r+1)*v]
					best[r] = 0
					for i, logit := range row {
						if logit > row[best[r]] {
							best[r] = int32(i)
						}
					}
				}
			})
			return nil
		}}, logits, c.labels).Keep()
}
