// Package kernel is a kernel plugin of tune for the op rope. T tokens, H and KV heads of q and k, d head_dim,
// r rotary_dim, P rows of the tables:
//
//	a' = a*c - b*s
//	b' = b*c + a*s
//
// for each pair (a, b) of a head, c and s from row positions[t] of cos and sin. Half pairs
// elements i and i + r/2, interleaved 2i and 2i + 1; elements from r on stay as they are.
//
//	q, q_out [T,H,d], k, k_out [T,KV,d], cos, sin [P,r/2], positions [T]
package kernel

import "github.com/seed98097648/tune/core"

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// kernel implements core.Kernel.
type kernel struct{}

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.RoPE, Version: version,
		Summary: "rope in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, both pairings.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
