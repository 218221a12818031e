// Package kernel is a kernel plugin of tune for the op qkv. T tokens, D dim, N rows of a weight: H*d of q,
// KV*d of k and v, with H heads of q, KV heads of k and v, and d head_dim. For n in q, k, v:
//
//	n_t = n_weight x_t + n_bias
//
//	x [T,D], n_weight [N,D], n_bias [N], n [T,N]
package kernel

import "github.com/seed98097648/tune/core"

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// parts are the three layers.
var parts = []string{"q", "k", "v"}

// kernel implements core.Kernel.
type kernel struct{}

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.QKV, Version: version,
		Summary: "qkv in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, with or without bias.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
