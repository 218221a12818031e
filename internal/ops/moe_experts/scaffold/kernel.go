// Package kernel is a kernel plugin of tune for the op moe_experts. T tokens, D dim, I intermediate,
// E experts, K experts per token. For choice k of token t, with e = expert_ids[t,k],
// p = routing_weights[t,k] and s(g) = 1/(1+exp(-g)):
//
//	g = gate[e] x_t,  u = up[e] x_t
//	h = g * s(g) * u
//	y_t = sum over k of p * down[e] h
//
//	x, y [T,D], expert_ids, routing_weights [T,K], gate, up [I,D] and down [D,I] of each
//	expert; packed gate_up [E,2I,D], the gate first, and down [E,D,I]. gate_up_out
//	[T,K,2I] is saved: row j has g and u of the j-th assignment, sorted by expert
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
	return core.Info{Name: name, Op: core.MoEExperts, Version: version,
		Summary: "moe_experts in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, both layouts, any routing, silu.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
