package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

const (
	name    = "npu_fused_rope"
	version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// kernel implements core.Kernel.
type kernel struct{}

// Info implements core.Kernel.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.RoPE, Version: version,
		Summary: "rotary embedding of q and k, one pass over memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: all valid facts in float32, bfloat16 and float16.
func (kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.RoPE); err != nil {
		return fmt.Errorf("%s: %w: %w", name, core.ErrNotSupported, err)
	}
	if !slices.Contains(dtypes, f.DType) {
		return fmt.Errorf("%s: %w: storage %s; it can be %v", name, core.ErrNotSupported, f.DType, dtypes)
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
	if err := c.Check(); err != nil {
		return err
	}
	rows := c.Input("cos").Shape[0]
	for t, p := range c.Input("positions").Int32s() {
		if p < 0 || int(p) >= rows {
			return fmt.Errorf("%s: %w: positions[%d] is %d, the tables have %d rows", name, core.ErrBadCall, t, p, rows)
		}
	}
	return nil
}
