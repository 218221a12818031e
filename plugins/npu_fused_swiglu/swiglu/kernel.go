// Package swiglu is the kernel of the plugin npu_fused_swiglu, for the op swiglu.
// T tokens, I intermediate:
//
//	y = gate*s*up, s = 1/(1+exp(-gate))
//
//	gate, up, y and their gradients [T,I] in storage precision; in the packed layout
//	gate_up [T,2I], the gate first
//	saved: nothing but the inputs
//
// Each element is read once and written once, with float32 arithmetic in between.
package swiglu

import "github.com/seed98097648/tune/core"

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_swiglu"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel; its zero value is ready.
type Kernel struct{}

// Info implements core.Kernel.
func (Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.SwiGLU, Version: Version,
		Summary: "silu(gate)*up, one pass over memory", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: silu in float32, bfloat16 and float16, both layouts.
func (k Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
