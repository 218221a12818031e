package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

const (
	name    = "npu_fused_moe"
	version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// kernel implements core.Kernel. It keeps its scratch memory from call to call.
type kernel struct {
	routes  routes
	gateUp  []float32 // [rows of a block, 2I]: g and u, or their gradients
	hidden  []float32 // [rows of a block, I]: h
	dhidden []float32 // [rows of a block, I]: gradient of h
	output  []float32 // [rows of a block, D]: a row of y or dx for each assignment
	sum     []float32 // [T,D]: y or dx before it is rounded to storage
}

// Info implements core.Kernel.
func (*kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.MoEExperts, Version: version,
		Summary: "all experts of a layer in grouped matrix products", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: silu in float32, bfloat16 and float16, both layouts,
// any routing weights.
func (*kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.MoEExperts); err != nil {
		return fmt.Errorf("%s: %w: %w", name, core.ErrNotSupported, err)
	}
	for _, d := range []core.DType{f.DType, f.WeightDType} {
		if !slices.Contains(dtypes, d) {
			return fmt.Errorf("%s: %w: storage %s; it can be %v", name, core.ErrNotSupported, d, dtypes)
		}
	}
	if f.Activation != "silu" {
		return fmt.Errorf("%s: %w: activation %q; it can be silu", name, core.ErrNotSupported, f.Activation)
	}
	return nil
}

// prepare checks a call and sorts its assignments.
func (k *kernel) prepare(ctx context.Context, c *core.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	ids := c.Input("expert_ids").Int32s()
	for a, e := range ids {
		if e < 0 || int(e) >= c.Facts.Experts {
			return fmt.Errorf("%s: %w: expert_ids[%d,%d] is %d, there are %d experts",
				name, core.ErrBadCall, a/c.Facts.TopK, a%c.Facts.TopK, e, c.Facts.Experts)
		}
	}
	k.routes.sort(ids, c.Facts.Experts)
	return nil
}

// grow returns n elements of scratch memory, with what they held before.
func grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n)
	}
	return (*buf)[:n]
}
