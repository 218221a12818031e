// Package w8a8 is the kernel of the plugin npu_fused_linear for the op linear_w8a8. T tokens, D dim, N out:
//
//	static:  q = clamp(round(x / input_scale) + input_offset);  y = (weight q + quant_bias) * deq_scale
//	dynamic: s_t = max|x_t| / 127;  q_t = clamp(round(x_t / s_t));  y_t = (weight q_t * s_t) * weight_scale + bias
//
//	x [T,D]; y [T,N] in storage precision; weight int8 [N,D]
//
// The weight is read once for all tokens, four rows at a time, and nothing is stored but y: sums leave the registers
// as numbers of y.
package w8a8

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_linear"
	Version = "0.1.0"
)

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to call.
type Kernel struct {
	core.ForwardOnly
	x, y []float32 // of a call whose activations are not float32
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.LinearW8A8, Version: Version,
		Summary: "a linear layer of int8 weights and activations",
		DTypes:  []core.DType{core.Float32, core.BFloat16, core.Float16}}
}

// Supports implements core.Kernel: all that the op has, in float32, bfloat16 and float16.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// Forward computes y.
func (k *Kernel) Forward(_ context.Context, c *core.Call) error {
	f, x, y := c.Facts, c.Input("x"), c.Output("y")
	p := vector.W8A8{M: c.Tokens(), N: f.Out, K: f.Dim, Weight: c.Input("weight").Int8s(), Y: vector.Wide(&k.y, y)}
	if x.DType == core.Float32 {
		p.X = x.Float32s()
	} else {
		p.X = vector.Grow(&k.x, x.Elems())
		vector.Load(p.X, x, 0)
	}
	if f.Scaling == core.StaticScaling {
		p.Static, p.InputScale = true, c.Input("input_scale").Float32s()[0]
		p.InputOffset, p.QuantBias = c.Input("input_offset").Int32s()[0], c.Input("quant_bias").Int32s()
		p.Scale = c.Input("deq_scale").Float32s()
	} else if p.Scale = c.Input("weight_scale").Float32s(); f.Bias {
		p.Bias = c.Input("bias").Float32s()
	}
	p.Multiply()
	vector.Narrow(y, p.Y)
	return nil
}
