// Package sharedexpert is the kernel of the plugin npu_fused_shared_expert for the op shared_expert_ffn. T tokens,
// D dim, I intermediate:
//
//	q, s = int8 of x_t;  g = (gate q * s) * gate_scale;  u = (up q * s) * up_scale
//	h    = g / (1+exp(-g)) * u
//	p, r = int8 of h;    y_t = (down p * r) * down_scale
//
//	x, y [T,D] in storage precision; gate, up int8 [I,D]; down int8 [D,I]; in the packed layout gate_up int8 [2I,D]
//
// x becomes int8 once for both its products, which leave the registers as numbers of h, a part of I at a time. Each
// weight is read once for all tokens.
package sharedexpert

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_shared_expert"
	Version = "0.1.0"
)

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to call.
type Kernel struct {
	core.ForwardOnly
	x, y []float32 // of a call whose activations are not float32
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.SharedExpertFFN, Version: Version,
		Summary: "gate, up, swiglu and down with int8 weights and activations",
		DTypes:  []core.DType{core.Float32, core.BFloat16, core.Float16}}
}

// Supports implements core.Kernel: all that the op has, in float32, bfloat16 and float16.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// Forward computes y.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	f, x, y := c.Facts, c.Input("x"), c.Output("y")
	p := vector.W8A8FFN{M: c.Tokens(), D: f.Dim, I: f.Intermediate, Down: c.Input("down").Int8s(),
		DownScale: c.Input("down_scale").Float32s(), Y: vector.Wide(&k.y, y)}
	if x.DType == core.Float32 {
		p.X = x.Float32s()
	} else {
		p.X = vector.Grow(&k.x, x.Elems())
		vector.Load(p.X, x, 0)
	}
	if f.Layout == core.Separate {
		p.Gate, p.GateScale = c.Input("gate").Int8s(), c.Input("gate_scale").Float32s()
		p.Up, p.UpScale = c.Input("up").Int8s(), c.Input("up_scale").Float32s()
	} else {
		both, scale := c.Input("gate_up").Int8s(), c.Input("gate_up_scale").Float32s()
		p.Gate, p.GateScale = both[:f.Intermediate*f.Dim], scale[:f.Intermediate]
		p.Up, p.UpScale = both[f.Intermediate*f.Dim:], scale[f.Intermediate:]
	}
	p.Multiply()
	vector.Narrow(y, p.Y)
	return nil
}
