// Package kernel is a kernel plugin of tune for the op shared_expert_ffn. T tokens, D dim, I intermediate; a row in
// int8 is the multiples of s = max|row| / 127 nearest to it, s being 1 for a row of zeros:
//
//	q, s = int8 of x_t;  g = (gate q * s) * gate_scale;  u = (up q * s) * up_scale
//	h    = g / (1+exp(-g)) * u
//	p, r = int8 of h;    y_t = (down p * r) * down_scale
//
//	x, y [T,D], gate, up int8 [I,D], gate_scale, up_scale [I], down int8 [D,I], down_scale [D]; in the packed layout
//	gate_up int8 [2I,D], gate_up_scale [2I], the gate first
package kernel

import "github.com/seed98097648/tune/core"

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// kernel implements core.Kernel.
type kernel struct{ core.ForwardOnly }

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.SharedExpertFFN, Version: version,
		Summary: "shared_expert_ffn in plain Go", DTypes: []core.DType{core.Float32}}
}

// Supports decides by facts alone: any size, both layouts, silu.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
