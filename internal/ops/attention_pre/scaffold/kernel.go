// Package kernel is a kernel plugin of tune for the op attention_pre. T tokens, D dim, H and KV heads of q and k,
// d head_dim:
//
//	h = x + residual
//	n = h * rstd * (offset + norm_weight) + norm_bias      rstd = 1/sqrt(mean(h^2) + eps)
//	y = weight n + bias, for each of q, k and v; in int8 with scaling, see docs/ops.md
//	q, k = the same norm of each head, with qk_norm, and then rotated by the angles of the token's position
//
//	x, residual, h [T,D], n_weight [N,D], N = H*d or KV*d, q [T,H,d], k, v [T,KV,d]
package kernel

import (
	"fmt"

	"github.com/seed98097648/tune/core"
)

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// kernel implements core.Kernel.
type kernel struct{ core.ForwardOnly }

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.AttentionPre, Version: version,
		Summary: "attention_pre in plain Go", DTypes: []core.DType{core.Float32, core.Int8}}
}

// Supports decides by facts alone: activations in float32.
func (k kernel) Supports(f core.Facts) error {
	if f.DType != core.Float32 {
		return fmt.Errorf("%w: dtype %s, only float32", core.ErrNotSupported, f.DType)
	}
	return k.Info().Supports(f)
}
