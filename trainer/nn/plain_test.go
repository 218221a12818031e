package nn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/trainer/autograd"
)

// plain offers the modules' plain forms as a kernel, so that the conformance suite for
// fused kernels vets what they are compared with.
type plain struct {
	t  *testing.T
	op core.Op
}

func (p plain) Info() core.Info {
	return core.Info{Name: "plain", Op: p.op, DTypes: []core.DType{core.Float32}, Backward: true}
}

func (p plain) Supports(f core.Facts) error {
	if f.DType != core.Float32 || f.WeightDType > core.Float32 || f.Layout == core.PerExpert {
		return fmt.Errorf("%w: the modules have no such site", core.ErrNotSupported)
	}
	return nil
}

// Forward lets the reference fill in what only a fused backward needs.
func (p plain) Forward(ctx context.Context, call *core.Call) error {
	if err := reference.Kernel(p.op).Forward(ctx, call); err != nil {
		return err
	}
	values, _ := p.run(call)
	for i, v := range values {
		copy(call.Out[i].Float32s(), v)
	}
	return nil
}

func (p plain) Backward(_ context.Context, call *core.Call) error {
	_, grads := p.run(call)
	for i, g := range grads {
		copy(call.Out[i].Float32s(), g)
	}
	return nil
}

var plainForms = map[core.Op]func(*Context, *core.Call) (outs, wrt []*autograd.Value){
	core.RMSNorm: plainNorm, core.AddRMSNorm: plainSum, core.SwiGLU: plainSwiGLU, core.RoPE: plainRope,
	core.Linear: plainLinear, core.MoEExperts: plainExperts,
	core.Attention: plainAttention,
}

// run records the plain form and runs both passes; in a forward call the upstream
// gradients are zero.
func (p plain) run(call *core.Call) (values, grads [][]float32) {
	c := newContext(p.t, 1, call.Tokens())
	outs, wrt := plainForms[p.op](c, call)
	if call.Facts.Frozen && p.op != core.Linear { // the weights come last
		wrt = wrt[:map[core.Op]int{core.RMSNorm: 1, core.AddRMSNorm: 1, core.MoEExperts: 2}[p.op]]
	}
	var upstream [][]float32
	for i, o := range outs {
		d := make([]float32, o.Shape().Elems())
		if call.Pass == core.Backward {
			d = call.In[i].Float32s() // they come first in every signature
		}
		upstream = append(upstream, d)
	}
	return run(p.t, c, outs, upstream, wrt...)
}

// leaves makes leaves of inputs, trainable but for frozen weights; one that the pass does
// not have is zero.
func leaves(c *Context, call *core.Call, args ...core.Arg) []*autograd.Value {
	var out []*autograd.Value
	for _, a := range args {
		x := core.NewTensor(core.Float32, a.Shape.Bind(call.Tokens(), 0)...)
		if slices.ContainsFunc(call.Sig.In, func(in core.Arg) bool { return in.Name == a.Name }) {
			x = call.Input(a.Name)
		}
		if call.Facts.Frozen && (a.Name == "gate_up" || a.Name == "down") {
			out = append(out, c.G.Input(a.Name, x))
			continue
		}
		out = append(out, c.G.Param(a.Name, x))
	}
	return out
}

func plainNorm(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	f := call.Facts
	norm := newNorm(NewBuilder(autograd.Heap{}), "norm", "norm", normKind{f.Dim, f.Eps, f.Offset}, false)
	copy(norm.Weight.Tensor.Data, call.Input("weight").Data)
	norm.Weight.Frozen = call.Facts.Frozen
	wrt = append(leaves(c, call, core.Arg{Name: "x"}), c.Leaf(norm.Weight))
	return []*autograd.Value{norm.Forward(c, wrt[0])}, wrt
}

// plainSum has h for one of its terms in a backward call, which has neither, and zero for
// the other.
func plainSum(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	f := call.Facts
	norm := newNorm(NewBuilder(autograd.Heap{}), "norm", "norm", normKind{f.Dim, f.Eps, f.Offset}, true)
	copy(norm.Weight.Tensor.Data, call.Input("weight").Data)
	norm.Weight.Frozen = call.Facts.Frozen
	shape := core.Shape{core.DimT, call.Facts.Dim}
	x := core.Arg{Name: "x", Shape: shape}
	if call.Pass == core.Backward {
		x.Name = "h"
	}
	terms := leaves(c, call, x, core.Arg{Name: "residual", Shape: shape})
	h, y := norm.ofSum(c, terms[1], terms[0], true)
	return []*autograd.Value{y, h}, []*autograd.Value{terms[0], c.Leaf(norm.Weight)}
}

func plainSwiGLU(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	var gate, up *autograd.Value
	if call.Facts.Layout == core.Packed {
		wrt = leaves(c, call, core.Arg{Name: "gate_up"})
		gate, up = halve(c.G, wrt[0])
	} else {
		wrt = leaves(c, call, core.Arg{Name: "gate"}, core.Arg{Name: "up"})
		gate, up = wrt[0], wrt[1]
	}
	m := &MLP{site: &site{facts: call.Facts}}
	m.facts.Layout = core.Separate
	return []*autograd.Value{m.activate(c, gate, up)}, wrt
}

// plainLinear has what is trained after x, in the order of the outputs.
func plainLinear(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	f, b := call.Facts, NewBuilder(autograd.Heap{})
	l := NewLinear(b, "layer", f.Dim, f.Out, f.Bias)
	body := b.Body()
	if f.Rank > 0 {
		if _, _, err := body.Adapt(body.Targets()[0], Adaptation{Rank: f.Rank, Scale: f.Scale}); err != nil {
			panic(err)
		}
	}
	if err := body.Round(f.Products); err != nil {
		panic(err)
	}
	wrt = leaves(c, call, core.Arg{Name: "x", Shape: core.Shape{core.DimT, f.Dim}})
	for i, name := range []string{"weight", "bias", "lora_a", "lora_b"}[:len(body.params)] {
		p := body.params[i]
		if !f.Bias && i > 0 {
			name = []string{"lora_a", "lora_b"}[i-1]
		}
		for j, a := range call.Sig.In {
			if a.Name == name {
				copy(p.Tensor.Data, call.In[j].Data)
			}
		}
		if p.Frozen = f.Frozen && (name == "weight" || name == "bias"); !p.Frozen {
			wrt = append(wrt, c.Leaf(p))
		}
	}
	return []*autograd.Value{l.Forward(c, wrt[0])}, wrt
}

func plainRope(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	f := call.Facts
	table := &RopeTable{InvFreq: make([]float64, f.RotaryDim/2)}
	c.positions = call.Input("cos").Shape[0]
	c.tables[table] = [2]*autograd.Value{c.G.Input("cos", call.Input("cos")), c.G.Input("sin", call.Input("sin"))}
	copy(c.batch.Positions, call.Input("positions").Int32s())
	wrt = leaves(c, call, core.Arg{Name: "q", Shape: core.Shape{core.DimT, f.Heads, f.HeadDim}},
		core.Arg{Name: "k", Shape: core.Shape{core.DimT, f.KVHeads, f.HeadDim}})
	rope := NewRope(NewBuilder(autograd.Heap{}), "rope", table, f.Pairing, f.Heads, f.KVHeads, f.HeadDim)
	q, k := rope.Forward(c, wrt[0], wrt[1])
	return []*autograd.Value{q, k}, wrt
}

func plainExperts(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	wrt = leaves(c, call, core.Arg{Name: "x"}, core.Arg{Name: "routing_weights"}, core.Arg{Name: "gate_up"},
		core.Arg{Name: "down"})
	rows := permute(c.G, wrt[0], c.G.Input("expert_ids", call.Input("expert_ids")), call.Facts.Experts)
	both := groupedLinear(c, rows.x, wrt[2], nil, rows.offsets, 2)
	hidden := weigh(c.G, mul(c.G, silu(c.G, both[0]), both[1]), wrt[1], rows.where)
	z := groupedLinear(c, hidden, wrt[3], nil, rows.offsets, 1)[0]
	return []*autograd.Value{unpermute(c.G, z, rows.where)}, wrt
}

func plainAttention(c *Context, call *core.Call) (outs, wrt []*autograd.Value) {
	f := call.Facts
	copy(c.batch.Keys, call.Input("keys").Int32s())
	kv := core.Shape{core.DimT, f.KVHeads, f.HeadDim}
	wrt = leaves(c, call, core.Arg{Name: "q"}, core.Arg{Name: "k", Shape: kv}, core.Arg{Name: "v", Shape: kv})
	op := attentionOp(1, c.S, AttentionConfig{Heads: f.Heads, KVHeads: f.KVHeads, HeadDim: f.HeadDim})
	return c.G.ApplyAll(op, append(slices.Clone(wrt), c.keys)...)[:1], wrt
}

// elsewhere reports the cases in which small operations rightly differ from one formula.
func elsewhere(c kerneltest.Case) bool {
	switch {
	case (c.Op == core.RMSNorm || c.Op == core.AddRMSNorm) && c.Facts.Dim == 1: // dx is a difference of equals, summed by autograd
		return true
	case c.Op == core.MoEExperts && strings.HasSuffix(c.Name, "nan and inf"):
		// The gradient of a routing weight is dy.(down h), and (down^T dy).h in the formula:
		// equal numbers, but infinities in them meet different zeros.
		return true
	}
	return false
}

// plainOps leaves out ops that no module has, linear_cross_entropy, whose plain form has one
// loss for all tokens, and moe_gate, whose plain form chooses again in the backward pass. Others compare these
// with the reference: TestFusedLossEqualsThePlainOne, TestFusedSumsAndRoutersTrainLikePlainOnes.
func plainOps() []core.Op {
	return slices.DeleteFunc(core.Ops(), func(op core.Op) bool { return plainForms[op] == nil })
}

func TestPlainFormsConformToTheContract(t *testing.T) {
	for _, op := range plainOps() {
		t.Run(string(op), func(t *testing.T) {
			if err := kerneltest.Check(plain{t, op}, slices.DeleteFunc(kerneltest.Cases(op), elsewhere)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPlainFormsEqualPublishedCode allows eight roundings of float32.
func TestPlainFormsEqualPublishedCode(t *testing.T) {
	for _, op := range plainOps() {
		t.Run(string(op), func(t *testing.T) { golden.Run(t, plain{t, op}, core.Float32, 0x1p-20) })
	}
}
