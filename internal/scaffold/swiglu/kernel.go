// Package kernel is a kernel plugin of tune for the op swiglu. T tokens, I intermediate:
//
//	y = gate * s(gate) * up, s(g) = 1/(1+exp(-g))
//
//	gate, up, y [T,I]; in the packed layout gate_up [T,2I], the gate first
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
	return core.Info{Name: name, Op: core.SwiGLU, Version: version,
		Summary: "swiglu in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: any size, both layouts, silu.
func (kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.SwiGLU); err != nil {
		return fmt.Errorf("%s: %w: %w", name, core.ErrNotSupported, err)
	}
	if f.DType != core.Float32 {
		return fmt.Errorf("%s: %w: storage %s; it must be float32", name, core.ErrNotSupported, f.DType)
	}
	if f.Activation != "silu" {
		return fmt.Errorf("%s: %w: activation %s; it must be silu", name, core.ErrNotSupported, f.Activation)
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
