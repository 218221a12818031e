package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

const (
	name    = "npu_fused_rmsnorm"
	version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// kernel implements core.Kernel. It keeps its scratch memory from call to call.
type kernel struct {
	partial []float32 // sums of dweight, one row for each block of tokens
}

// Info implements core.Kernel.
func (*kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.RMSNorm, Version: version,
		Summary: "root mean square norm, one pass over memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: all valid facts in float32, bfloat16 and float16.
func (*kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.RMSNorm); err != nil {
		return fmt.Errorf("%s: %w: %w", name, core.ErrNotSupported, err)
	}
	for _, d := range []core.DType{f.DType, f.WeightDType} {
		if !slices.Contains(dtypes, d) {
			return fmt.Errorf("%s: %w: storage %s; it can be %v", name, core.ErrNotSupported, d, dtypes)
		}
	}
	return nil
}

func (k *kernel) check(ctx context.Context, c *core.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	return c.Check()
}
