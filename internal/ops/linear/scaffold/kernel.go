// Package kernel is a kernel plugin of tune for the op linear. T tokens, D dim, N out, R rank of the
// adapter, if there is one:
//
//	u_t = scale * A x_t
//	y_t = weight x_t + bias + B u_t
//
//	x [T,D], weight [N,D], bias [N], A = lora_a [R,D], B = lora_b [N,R], y [T,N]
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
	return core.Info{Name: name, Op: core.Linear, Version: version,
		Summary: "linear in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, with or without bias and adapter.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
