// Package kernel is a kernel plugin of tune for the op rms_norm. T tokens, D dim:
//
//	rstd_t = 1/sqrt(mean(x_t^2) + eps)
//	y_t    = x_t * rstd_t * (offset + weight)
//
//	x, y [T,D], weight [D], rstd [T], which is saved for backward
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
	return core.Info{Name: name, Op: core.RMSNorm, Version: version,
		Summary: "rms_norm in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size and offset, and either cast order, which are
// the same in float32.
func (kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.RMSNorm); err != nil {
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
