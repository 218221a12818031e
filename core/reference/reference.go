// Package reference computes each op of the contract in plain Go: the oracle that
// kernels are checked against, and the fallback when a kernel does not support a call.
// docs/ops.md has the formulas; as code they lie in internal/ops, a folder for each op.
//
// Storage is rounded where the op says so and nowhere else: at each output, at
// rms_norm's n when the cast comes before the weight, and at moe_experts' g and u, which
// are an output. Gradients treat a rounding as the identity. NaN and infinity go
// wherever the formulas take them.
package reference

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/ops"
)

// Kernel returns the reference of op, with float64 arithmetic. It supports all valid
// facts, in every storage type including float64.
func Kernel(op core.Op) core.Kernel { return kernel{op: op} }

// Single returns the same formulas evaluated in float32, one operation after the other
// in the order written; but attention's scores are float64. Its distance from Kernel shows how much of a difference
// float32 rounding explains on given data, which is how tolerances are derived.
func Single(op core.Op) core.Kernel { return kernel{op: op, single: true} }

type kernel struct {
	op     core.Op
	single bool
}

// Info implements core.Kernel.
func (k kernel) Info() core.Info {
	var activations []string
	if k.op == core.SwiGLU {
		activations = []string{core.GELUTanh}
	}
	return core.Info{
		Name:     "reference",
		Op:       k.op,
		Version:  "1",
		Summary:  "plain Go with float64 arithmetic",
		DTypes:   []core.DType{core.Float32, core.BFloat16, core.Float16, core.Float64, core.Int8},
		Backward: len(k.op.Passes()) > 1,
		Rounds:   []core.DType{core.BFloat16},

		Activations: activations,
	}
}

// Supports implements core.Kernel.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// Forward implements core.Kernel.
func (k kernel) Forward(_ context.Context, c *core.Call) error { return k.run(c, core.Forward) }

// Backward implements core.Kernel.
func (k kernel) Backward(_ context.Context, c *core.Call) error { return k.run(c, core.Backward) }

func (k kernel) run(c *core.Call, pass core.Pass) error {
	if c.Op != k.op || c.Pass != pass {
		return fmt.Errorf("reference: %w: %s %s given to %s %s", core.ErrBadCall, c.Op, c.Pass, k.op, pass)
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	if k.single {
		ops.Of(c.Op).Single(c)
	} else {
		ops.Of(c.Op).Double(c)
	}
	return nil
}
