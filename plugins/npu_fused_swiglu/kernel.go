package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

const (
	name    = "npu_fused_swiglu"
	version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// kernel implements core.Kernel.
type kernel struct{}

// Info implements core.Kernel.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.SwiGLU, Version: version,
		Summary: "silu(gate)*up, one pass over memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: silu in float32, bfloat16 and float16, both layouts.
func (kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.SwiGLU); err != nil {
		return fmt.Errorf("%s: %w: %w", name, core.ErrNotSupported, err)
	}
	if !slices.Contains(dtypes, f.DType) {
		return fmt.Errorf("%s: %w: storage %s; it can be %v", name, core.ErrNotSupported, f.DType, dtypes)
	}
	if f.Activation != "silu" {
		return fmt.Errorf("%s: %w: activation %q; it can be silu", name, core.ErrNotSupported, f.Activation)
	}
	return nil
}

func (k kernel) check(ctx context.Context, c *core.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	return c.Check()
}
