// Package moe is the kernel of the plugin npu_fused_moe for the op moe_experts. T tokens,
// K experts per token, E experts, D dim, I intermediate:
//
//	g, u = gate[e] x_t, up[e] x_t    for each assignment of token t to expert e
//	h = g*s(g)*u, s(g) = 1/(1+exp(-g))
//	y_t = sum over the token's experts of p * down[e] h, p the routing weight
//
//	x, y, dy, dx [T,D] in storage precision; expert_ids [T,K] int32
//	routing_weights, drouting_weights [T,K] float32
//	packed: gate_up [E,2I,D], the gate first, and down [E,D,I]
//	per_expert: gate and up [I,D], down [D,I], E of each
//	weights in storage precision, their gradients in float32
//	saved: gate_up_out [T,K,2I], g and u of the assignments sorted by expert, stably
//
// Assignments are sorted by expert once. Then the products of all experts run together
// over all cores, in blocks of rows of bounded size.
package moe

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_moe"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to
// call.
type Kernel struct {
	// Multiply computes the products; nil for the fastest of vector.
	Multiply vector.Multiplier

	routes  routes
	x, dy   []float32 // [rows of a block, D]: the tokens' rows in the order of experts; x is then those of y or dx
	gateUp  []float32 // [rows of a block, 2I]: g and u, or their gradients
	hidden  []float32 // [rows of a block, I]: h
	dhidden []float32 // [rows of a block, I]: gradient of h
	sum     []float32 // [T,D]: y or dx before it is rounded to storage, unless that is float32
}

// Info implements core.Kernel.
func (*Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.MoEExperts, Version: Version,
		Summary: "all experts of a layer in grouped matrix products", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: silu in float32, bfloat16 and float16, both layouts,
// any routing weights.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }
