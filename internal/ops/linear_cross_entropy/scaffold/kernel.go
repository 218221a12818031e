// Package kernel is a kernel plugin of tune for the op linear_cross_entropy. T tokens, D dim, V vocab. For
// each token with a label:
//
//	z      = weight x_t
//	lse    = log(sum over v of exp(z_v))
//	loss_t = lse - z[label_t]
//
//	x [T,D], weight [V,D], labels, losses [T]; a negative label is none, and its loss 0
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
	return core.Info{Name: name, Op: core.LinearCrossEntropy, Version: version,
		Summary: "linear_cross_entropy in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
