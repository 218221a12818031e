// Package kernel is a kernel plugin of tune for the op linear_w8a8. T tokens, D dim, N out; q is x in int8:
//
//	static:  q = clamp(round(x / input_scale) + input_offset);  y = (weight q + quant_bias) * deq_scale
//	dynamic: s_t = max|x_t| / 127, 1 for a row of zeros;  q_t = clamp(round(x_t / s_t))
//	         y_t = (weight q_t * s_t) * weight_scale + bias
//
//	x [T,D], weight int8 [N,D], deq_scale, quant_bias, weight_scale, bias [N], y [T,N]
package kernel

import "github.com/seed98097648/tune/core"

const (
	name    = "my_kernel" // what --kernels takes
	version = "0.1.0"
)

// kernel implements core.Kernel.
type kernel struct{ core.ForwardOnly }

var _ core.Kernel = kernel{}

// Info says what the kernel is.
func (kernel) Info() core.Info {
	return core.Info{Name: name, Op: core.LinearW8A8, Version: version,
		Summary: "linear_w8a8 in plain Go", DTypes: []core.DType{core.Float32}}
}

// Supports decides by facts alone: any size, both scalings, with or without bias.
func (k kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
