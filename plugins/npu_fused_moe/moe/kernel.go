// Package moe has the kernels of the plugin npu_fused_moe: GateKernel for the op moe_gate,
// and Kernel for moe_experts. T tokens, K experts per token, E experts, D dim, I intermediate:
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
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

// Name and Version are the plugin's, and of its kernels when they are linked into a program.
const (
	Name    = "npu_fused_moe"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel for moe_experts; its zero value is ready. It keeps its scratch memory from call to call.
type Kernel struct {
	routes  routes
	x, dy   []float32 // [rows of a block, D]: the tokens' rows in the order of experts
	gateUp  []float32 // [rows of a block, 2I]: g and u, or their gradients
	hidden  []float32 // [rows of a block, I]: h
	dhidden []float32 // [rows of a block, I]: gradient of h
	output  []float32 // [rows of a block, D]: a row of y or dx for each assignment
	sum     []float32 // [T,D]: y or dx before it is rounded to storage, unless that is float32
}

// Info implements core.Kernel.
func (*Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.MoEExperts, Version: Version,
		Summary: "all experts of a layer in grouped matrix products", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: silu in float32, bfloat16 and float16, both layouts,
// any routing weights.
func (*Kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.MoEExperts); err != nil {
		return fmt.Errorf("%s: %w: %w", Name, core.ErrNotSupported, err)
	}
	for _, d := range []core.DType{f.DType, f.WeightDType} {
		if !slices.Contains(dtypes, d) {
			return fmt.Errorf("%s: %w: storage %s; it can be %v", Name, core.ErrNotSupported, d, dtypes)
		}
	}
	if f.Activation != "silu" {
		return fmt.Errorf("%s: %w: activation %q; it can be silu", Name, core.ErrNotSupported, f.Activation)
	}
	return nil
}

// prepare checks a call and sorts its assignments.
func (k *Kernel) prepare(ctx context.Context, c *core.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	ids := c.Input("expert_ids").Int32s()
	if err := checkIDs(c.Facts, ids); err != nil {
		return err
	}
	k.routes.sort(ids, c.Facts.Experts)
	return nil
}

// checkIDs makes sure that every expert exists.
func checkIDs(f core.Facts, ids []int32) error {
	for a, e := range ids {
		if e < 0 || int(e) >= f.Experts {
			return fmt.Errorf("%s: %w: expert_ids[%d,%d] is %d, there are %d experts",
				Name, core.ErrBadCall, a/f.TopK, a%f.TopK, e, f.Experts)
		}
	}
	return nil
}

// grow returns n elements of scratch memory, with what they held before.
func grow(buf *[]float32, n int) []float32 {
	if cap(*buf) < n {
		*buf = make([]float32, n)
	}
	return (*buf)[:n]
}
