package opbench

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// entry says with which shapes an op is measured. A new op is one entry.
type entry struct {
	op     core.Op
	shapes []shape
	tokens []int // a few, so that most tensors stay in a cache, and as many as a batch has
	// lossToo says that the backward pass gives what the forward pass does, so that nobody
	// runs both.
	lossToo bool
	// edit changes the random inputs into such as a trainer has; nil leaves them.
	edit func(in map[string][]core.Tensor)
}

// shape is what an op is measured with beside the number of tokens and the dtype.
type shape struct {
	name  string // what follows the tokens in the name
	facts core.Facts
}

// entries holds the shapes. The facts lack their dtypes.
var entries = []entry{
	{op: core.RMSNorm, tokens: []int{128, 2048}, shapes: []shape{norm(1024), norm(4096)}},
	{op: core.AddRMSNorm, tokens: []int{128, 2048}, shapes: []shape{norm(1024), norm(4096)}},
	{op: core.SwiGLU, tokens: []int{128, 2048}, shapes: []shape{swiglu(3072), swiglu(11008), packed(swiglu(3072))}},
	{op: core.RoPE, tokens: []int{128, 2048}, edit: consecutive, shapes: []shape{
		{"x(32+8)x128 half", core.Facts{Pairing: core.Half, HeadDim: 128, RotaryDim: 128, Heads: 32, KVHeads: 8}},
	}},
	{op: core.MoEGate, tokens: []int{128, 2048}, shapes: []shape{
		{"x128 top-8 softmax", core.Facts{Experts: 128, TopK: 8, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1, Normalize: true, Scale: 1}},
		{"x256 top-8 sigmoid 4/8 groups", core.Facts{Experts: 256, TopK: 8, Scoring: core.ScoringSigmoid, Bias: true,
			Groups: 8, TopGroups: 4, Normalize: true, Scale: 2.5}},
	}},
	{op: core.MoEExperts, tokens: []int{128, 2048}, shapes: []shape{
		{"x512/384 32 experts top-4", core.Facts{Dim: 512, Intermediate: 384, Activation: "silu", Layout: core.Packed,
			Experts: 32, TopK: 4, Routing: core.RoutingNormalized}},
	}},
	{op: core.Attention, tokens: []int{128, 1024}, edit: causal, shapes: []shape{
		{"x16x64 causal", core.Facts{HeadDim: 64, Heads: 16, KVHeads: 16}},
		{"x16:8x64 causal", core.Facts{HeadDim: 64, Heads: 16, KVHeads: 8}},
	}},
	{op: core.LinearCrossEntropy, tokens: []int{512}, edit: noneIgnored, lossToo: true, shapes: []shape{
		{"x1024x32000", core.Facts{Dim: 1024, Vocab: 32000}},
	}},
}

func norm(dim int) shape {
	return shape{fmt.Sprintf("x%d", dim), core.Facts{Dim: dim, Eps: 1e-6, Cast: core.CastBeforeWeight}}
}

func swiglu(intermediate int) shape {
	return shape{fmt.Sprintf("x%d", intermediate), core.Facts{Intermediate: intermediate, Activation: "silu", Layout: core.Separate}}
}

// packed has the gate and the other half side by side.
func packed(s shape) shape {
	s.name, s.facts.Layout = s.name+" packed", core.Packed
	return s
}

// consecutive makes the tokens one row of text: positions 0, 1, 2, ...
func consecutive(in map[string][]core.Tensor) {
	for t, p := 0, in["positions"][0].Int32s(); t < len(p); t++ {
		p[t] = int32(t)
	}
}

// causal makes the tokens one document, of which each sees itself and those before it.
func causal(in map[string][]core.Tensor) {
	keys := in["keys"][0].Int32s()
	for t := range len(keys) / 2 {
		keys[2*t], keys[2*t+1] = 0, int32(t+1)
	}
}

// noneIgnored gives every token a label.
func noneIgnored(in map[string][]core.Tensor) {
	for t, labels := 0, in["labels"][0].Int32s(); t < len(labels); t++ {
		labels[t] = max(labels[t], 0)
	}
}

// use is one op with one shape, ready to be measured.
type use struct {
	kerneltest.Case
	entry
	shape string // its name
}

// uses returns what an op is measured with, those of one shape together; tokens replaces
// the numbers of the op's entry unless it is nil.
func uses(op core.Op, d core.DType, tokens []int) []use {
	var all []use
	for _, e := range entries {
		if e.op != op {
			continue
		}
		counts := tokens
		if counts == nil {
			counts = e.tokens
		}
		for _, s := range e.shapes {
			for _, t := range counts {
				all = append(all, e.use(s, d, t))
			}
		}
	}
	return all
}

func (e entry) use(s shape, d core.DType, tokens int) use {
	u := use{entry: e, shape: fmt.Sprintf("%d%s", tokens, s.name),
		Case: kerneltest.Case{Op: e.op, Facts: s.facts, Tokens: tokens, Seed: 1, Edit: e.edit}}
	u.Facts.DType = d
	if e.op.HasWeights() {
		u.Facts.WeightDType = d
	}
	if e.op == core.RoPE {
		u.Positions = tokens
	}
	return u
}
