// Package pre is the kernel of the plugin npu_fused_attention_pre, for the op attention_pre. T tokens, D dim, H and
// KV heads of q and k, d head_dim, N = H*d or KV*d rows of a weight:
//
//	h = x + residual
//	n = rms_norm of h, + norm_bias
//	q, k, v = n weight^T + bias; or of n in int8, as the op linear_w8a8 has it
//	q, k = rms_norm of each head, + its bias, with qk_norm; then rotated by the angles of the token's position
//
//	x, residual, h [T,D], q [T,H,d], k and v [T,KV,d] in storage precision; weights [N,D] in theirs
//
// Its arithmetic is that of the kernels of add_rms_norm, qkv, linear_w8a8, rms_norm and rope, whose packages it is
// made of: their bits are the same. Rows of n become int8 once for all three layers, and each row of q and k is normed
// and rotated at once, where it lies.
package pre

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_attention_pre"
	Version = "0.1.0"
)

// grain is how many elements make it worth another thread.
const grain = 1 << 14

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to call.
type Kernel struct {
	core.ForwardOnly
	kept vector.Kept  // the weights, packed
	n    []float32    // what the layers multiply
	wide [3][]float32 // q, k and v before they are rounded to storage, unless that is float32
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.AttentionPre, Version: Version, Keeps: true,
		Summary: "all of a layer before its attention, for inference",
		DTypes:  []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8}}
}

// Supports implements core.Kernel: all that the op has, in float32, bfloat16 and float16, and weights in int8 as well.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
