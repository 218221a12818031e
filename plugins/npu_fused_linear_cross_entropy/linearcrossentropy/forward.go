package linearcrossentropy

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// Forward computes the losses.
func (k *Kernel) Forward(ctx context.Context, c *core.Call) error {
	if err := k.prepare(ctx, c); err != nil {
		return err
	}
	V, labels, losses := c.Facts.Vocab, c.Input("labels").Int32s(), c.Output("losses").Float32s()
	clear(losses)
	return k.chunks(ctx, c, func(targets []int, _, logits []float32) {
		simd.Parallel(len(targets), rowGrain/V, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				t := targets[r]
				losses[t], _ = exponentials(logits[r*V:(r+1)*V], labels[t])
			}
		})
	})
}

// exponentials turns a row of logits z into exp(z - max(z)). It returns the loss and the
// sum of the row. The largest logit, and not the logarithm of the sum, is subtracted:
// near a large logit a logarithm has few digits left.
func exponentials(z []float32, label int32) (loss float32, sum float64) {
	target, high := z[label], simd.Max(z)
	sum = simd.ExpSum(z, z, 1, high)
	return float32(math.Log(sum) + float64(high) - float64(target)), sum
}
