// Package qkv is the kernel of the plugin npu_fused_linear for the op qkv. T tokens, D dim, N rows of a
// weight: H*d of q, KV*d of k and v. For n in q, k, v:
//
//	n = x n_weight^T + n_bias
//
//	x, dx [T,D]; n, dn [T,N] in storage precision; n_weight [N,D] in its own, which int8 has
//	multiplied by n_weight_scale [N], a number for each row
//	n_bias [N] and all gradients of weights float32
//	saved: nothing but the inputs
//
// The three products are computed together, with x split and packed once where they are on tiles. There what is
// packed of frozen weights is kept for later calls.
package qkv

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_linear"
	Version = "0.1.0"
)

var adds = []string{"dq_weight", "dk_weight", "dv_weight"}

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8}

// parts are the three layers.
var parts = []string{"q", "k", "v"}

// grain is how many elements make it worth another thread.
const grain = 1 << 14

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to
// call.
type Kernel struct {
	// Multiply computes products that do not depend on each other; nil for the fastest of this module.
	Multiply vector.Multiplier

	kept vector.Kept  // the weights, where they are frozen
	wide [4][]float32 // q, k and v, or dx, before they are rounded to storage, unless that is float32
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	i := core.Info{Name: Name, Op: core.QKV, Version: Version,
		Summary: "the linear layers before attention, of one x", DTypes: dtypes, Backward: true}
	if k.Multiply == nil { // which adds a sum once, if it has few terms
		i.Adds, i.AddsTokens = adds, vector.StepTerms
		i.Keeps = true
	}
	return i
}

// Supports implements core.Kernel: all that the op has, in float32, bfloat16 and float16, and weights in
// int8 as well.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// weight is that of one of the parts, as an operand.
func weight(c *core.Call, part string) vector.Matrix {
	w := c.Input(part + "_weight")
	if w.DType == core.Int8 {
		return vector.Matrix{Int8: w.Int8s(), Scale: c.Input(part + "_weight_scale").Float32s(), Stride: c.Facts.Dim}
	}
	return vector.MatrixOf(w)
}

// weights are the inputs that one of the parts is made of, where it stays as it is from call to call.
func weights(c *core.Call, part string, frozen bool) []core.Tensor {
	switch w := c.Input(part + "_weight"); {
	case !frozen:
		return nil
	case w.DType == core.Int8:
		return []core.Tensor{w, c.Input(part + "_weight_scale")}
	default:
		return []core.Tensor{w}
	}
}

// rows returns how many a part's weight has.
func rows(f core.Facts, part string) int {
	if part == "q" {
		return f.Heads * f.HeadDim
	}
	return f.KVHeads * f.HeadDim
}
