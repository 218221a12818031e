package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Backward writes dq, dk and dv. It computes the probabilities again, because the saved lse
// is rounded. With dp_j = dy . v_j, and ds the gradient of a score through the softmax:
//
//	ds_j = p_j * (dp_j - sum over j of p_j*dp_j) / sqrt(d)
//	dq   = sum over j of ds_j * k_j
//	dk_j = sum over the queries that see j of ds_j * q
//	dv_j = sum over the same of p_j * dy
func (kernel) Backward(_ context.Context, c *core.Call) error {
	a := newHeads(c)
	dy, dq := c.Input("dy").Float32s(), c.Output("dq").Float32s()
	dk, dv := c.Output("dk").Float32s(), c.Output("dv").Float32s()
	for _, out := range [][]float32{dq, dk, dv} {
		clear(out)
	}
	dp := make([]float64, c.Tokens())
	a.each(func(t, h, first int, p []float64, _ float64) {
		up, mean := a.query(dy, t, h), 0.0
		for j, w := range p {
			dp[j] = dot(up, a.key(a.v, first+j, h))
			mean += w * dp[j]
		}
		for j, w := range p {
			ds := float32(w * (dp[j] - mean) / math.Sqrt(float64(a.d)))
			axpy(a.query(dq, t, h), ds, a.key(a.k, first+j, h))
			axpy(a.key(dk, first+j, h), ds, a.query(a.q, t, h))
			axpy(a.key(dv, first+j, h), float32(w), up)
		}
	})
	return nil
}

// axpy adds s*x to dst.
func axpy(dst []float32, s float32, x []float32) {
	dst = dst[:len(x)] // no index below needs a check
	for i, v := range x {
		dst[i] += s * v
	}
}
