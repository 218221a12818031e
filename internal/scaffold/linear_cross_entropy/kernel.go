// Package kernel is a kernel plugin of tune for the op linear_cross_entropy. T tokens, D dim, V vocab. For
// each token with a label:
//
//	z      = weight x_t
//	lse    = log(sum over v of exp(z_v))
//	loss_t = lse - z[label_t]
//
//	x [T,D], weight [V,D], labels, losses [T]; a negative label is none, and its loss 0
package kernel

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
)

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
func (kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.LinearCrossEntropy); err != nil {
		return fmt.Errorf("%s: %w: %w", name, core.ErrNotSupported, err)
	}
	if f.DType != core.Float32 || f.WeightDType != core.Float32 {
		return fmt.Errorf("%s: %w: storage %s, weights %s; both must be float32", name, core.ErrNotSupported, f.DType, f.WeightDType)
	}
	return nil
}

// check is the start of both passes.
func (k kernel) check(ctx context.Context, c *core.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	return c.Check()
}
