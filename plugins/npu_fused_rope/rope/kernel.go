// Package rope is the kernel of the plugin npu_fused_rope, for the op rope. T tokens,
// P positions, H heads, d head_dim, r rotary_dim:
//
//	a' = a*cos - b*sin      for each pair (a, b) of a head, by the angle of the pair
//	b' = b*cos + a*sin      at the token's position
//
//	q, q_out [T,H,d] and k, k_out [T,KV,d] in storage precision, and their gradients
//	cos, sin [P,r/2] float32; positions [T] int32
//	pairs: half (i, i+r/2) or interleaved (2i, 2i+1); elements from r on stay
//	saved: nothing
//
// Each token of q and k is read once and written once, with float32 arithmetic in
// between.
package rope

import "github.com/seed98097648/tune/core"

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_rope"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel; its zero value is ready.
type Kernel struct{}

// Info implements core.Kernel.
func (Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.RoPE, Version: Version,
		Summary: "rotary embedding of q and k, one pass over memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: all valid facts in float32, bfloat16 and float16.
func (k Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
