package linearcrossentropy

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/internal/storage"
)

// Backward computes the losses as Forward does, and of the logits' gradient
//
//	dz = dloss_t * (exp(z - lse_t) - [v = label_t])
//
// the products dx_t = weight^T dz and dweight = sum of dz x_t^T.
func (k *Kernel) Backward(ctx context.Context, c *core.Call) error {
	if err := k.prepare(ctx, c); err != nil {
		return err
	}
	D, V := c.Facts.Dim, c.Facts.Vocab
	labels, dlosses, losses := c.Input("labels").Int32s(), c.Input("dlosses").Float32s(), c.Output("losses").Float32s()
	dx, dweight := c.Output("dx"), c.Output("dweight").Float32s()
	clear(losses)
	clear(dx.Data)
	if len(k.targets) == 0 {
		simd.Parallel(len(dweight), rowGrain, func(lo, hi int) { clear(dweight[lo:hi]) })
	}
	first := true
	return k.chunks(ctx, c, func(targets []int, x, logits []float32) {
		n := len(targets)
		simd.Parallel(n, rowGrain/V, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				t, row := targets[r], logits[r*V:(r+1)*V]
				loss, sum := exponentials(row, labels[t])
				losses[t] = loss
				simd.Scale(row, row, float32(float64(dlosses[t])/sum))
				row[labels[t]] -= dlosses[t]
			}
		})
		dz, rows := simd.Matrix{Data: logits, Stride: V}, grow(&k.dx, n*D)
		simd.Multiply(simd.Product{M: V, N: D, K: n, A: dz, TransA: true, B: simd.Matrix{Data: x, Stride: D},
			C: dweight, StrideC: D, Accumulate: !first})
		simd.Multiply(simd.Product{M: n, N: D, K: V, A: dz, B: matrix(c.Input("weight")), C: rows, StrideC: D})
		for r, t := range targets {
			storage.Store(dx, rows[r*D:(r+1)*D], t*D)
		}
		first = false
	})
}
