// Package kernel is a kernel plugin of tune for the op swiglu. T tokens, I intermediate:
//
//	y = gate * s(gate) * up, s(g) = 1/(1+exp(-g))
//
//	gate, up, y [T,I]; in the packed layout gate_up [T,2I], the gate first
package kernel

import "github.com/seed98097648/tune/core"

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
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
