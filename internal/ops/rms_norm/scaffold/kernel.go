// Package kernel is a kernel plugin of tune for the op rms_norm. T tokens, D dim:
//
//	rstd_t = 1/sqrt(mean(x_t^2) + eps)
//	y_t    = x_t * rstd_t * (offset + weight)
//
//	x, y [T,D], weight [D], rstd [T], which is saved for backward
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
	return core.Info{Name: name, Op: core.RMSNorm, Version: version,
		Summary: "rms_norm in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size and offset, and either cast order, which are
// the same in float32.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
