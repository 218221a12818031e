// Package kernel is a kernel plugin of tune for the op gate_up_swiglu. T tokens, D dim, I intermediate:
//
//	g_t = gate x_t;  u_t = up x_t
//	y_t = g_t * s(g_t) * u_t, s(g) = 1/(1+exp(-g))
//
//	x [T,D], y [T,I]; separate: gate and up [I,D]; packed: gate_up [2I,D], the gate first
//	gate_up_out [T,2I]: g and u of each token, saved, unless they are to be computed again
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
	return core.Info{Name: name, Op: core.GateUpSwiGLU, Version: version,
		Summary: "gate_up_swiglu in plain Go", DTypes: []core.DType{core.Float32}, Backward: true}
}

// Supports decides by facts alone: silu, both layouts, any size, saved or computed again.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// halves finds gate and up, each [I,D], or with prefix d their gradients.
func halves(f core.Facts, named func(string) core.Tensor, prefix string) (gate, up []float32) {
	if f.Layout == core.Packed {
		both := named(prefix + "gate_up").Float32s()
		return both[:len(both)/2], both[len(both)/2:]
	}
	return named(prefix + "gate").Float32s(), named(prefix + "up").Float32s()
}
