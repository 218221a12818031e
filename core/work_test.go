package core_test

import (
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestWorkFollowsTheFormulas(t *testing.T) {
	norm := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Cast: core.CastBeforeWeight}
	glu := core.Facts{DType: core.Float32, Intermediate: 16, Activation: "silu", Layout: core.Separate}
	rope := core.Facts{DType: core.Float32, HeadDim: 8, RotaryDim: 4, Heads: 4, KVHeads: 2, Pairing: core.Half}
	moe := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Intermediate: 16, Experts: 4, TopK: 2,
		Activation: "silu", Layout: core.Packed, Routing: core.RoutingSoftmax}
	attention := core.Facts{DType: core.Float32, HeadDim: 8, Heads: 4, KVHeads: 2}
	loss := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Vocab: 16}
	qkv := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, HeadDim: 4, Heads: 4, KVHeads: 2, Bias: true}
	gateUp := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Intermediate: 16, Activation: "silu",
		Layout: core.Separate}
	again := gateUp
	again.Recompute = true
	linear := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, Out: 16, Bias: true}
	adapted := linear
	adapted.Rank, adapted.Scale = 2, 0.5
	static := core.Facts{DType: core.Float32, Dim: 8, Out: 16, Scaling: core.StaticScaling}
	dynamic := static
	dynamic.Scaling = core.DynamicScaling
	pre := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 8, HeadDim: 4, RotaryDim: 2, Heads: 4, KVHeads: 2,
		Pairing: core.Half, Cast: core.CastBeforeWeight}
	all := pre
	all.Bias, all.Residual, all.QKNorm = true, true, true
	paged := core.Facts{DType: core.Float32, HeadDim: 8, Heads: 4, KVHeads: 2, BlockSize: 16, Scale: 1}
	shared := core.Facts{DType: core.Float32, Dim: 8, Intermediate: 16, Activation: "silu", Layout: core.Packed}
	for _, tt := range []struct {
		op   core.Op
		pass core.Pass
		f    core.Facts
		want core.Work
	}{
		{core.Linear, core.Forward, linear, core.Work{Products: 3 * 2 * 8 * 16, Elementwise: 3 * 16}},
		{core.Linear, core.Backward, linear, core.Work{Products: 3 * 4 * 8 * 16, Elementwise: 3 * 16}},
		{core.Linear, core.Backward, frozen(linear), core.Work{Products: 3 * 2 * 8 * 16}},
		{core.Linear, core.Forward, adapted, core.Work{Products: 3 * 2 * (8*16 + 2*8 + 2*16), Elementwise: 3 * 16}},
		{core.Linear, core.Backward, adapted, core.Work{Products: 3 * 2 * (2*8*16 + 3*2*8 + 2*2*16), Elementwise: 3 * 16}},
		{core.Linear, core.Backward, frozen(adapted), core.Work{Products: 3 * 2 * (8*16 + 3*2*8 + 2*2*16)}},
		{core.LinearW8A8, core.Forward, static, core.Work{Products: 3 * 2 * 8 * 16, Elementwise: 3 * (3*8 + 2*16)}},
		{core.LinearW8A8, core.Forward, dynamic, core.Work{Products: 3 * 2 * 8 * 16, Elementwise: 3 * (3*8 + 3*16)}},
		{core.AttentionPre, core.Forward, pre, core.Work{Products: 3 * 2 * 8 * 32, Elementwise: 3 * (8*4 + 6*3*2)}},
		{core.AttentionPre, core.Forward, all,
			core.Work{Products: 3 * 2 * 8 * 32, Elementwise: 3 * (8*4 + 6*3*2 + 32 + 8 + 6*4*4)}},
		{core.PagedAttention, core.Forward, paged, core.Work{Products: 6 * 4 * 2 * 2 * 8, Elementwise: 6 * 4 * 4}},
		{core.ReshapeAndCache, core.Forward, paged, core.Work{Elementwise: 3 * 2 * 2 * 8}},
		{core.SharedExpertFFN, core.Forward, shared, core.Work{Products: 3 * 6 * 8 * 16, Elementwise: 3 * (6*8 + 14*16)}},
		{core.QKV, core.Forward, qkv, core.Work{Products: 3 * 2 * 8 * 32, Elementwise: 3 * 32}},
		{core.QKV, core.Backward, qkv, core.Work{Products: 3 * 4 * 8 * 32, Elementwise: 3 * (32 + 2*8)}},
		{core.QKV, core.Backward, frozen(qkv), core.Work{Products: 3 * 2 * 8 * 32, Elementwise: 3 * 2 * 8}},
		{core.GateUpSwiGLU, core.Forward, gateUp, core.Work{Products: 3 * 4 * 8 * 16, Elementwise: 3 * 16 * 5}},
		{core.GateUpSwiGLU, core.Backward, gateUp, core.Work{Products: 3 * 8 * 8 * 16, Elementwise: 3 * (16*10 + 8)}},
		{core.GateUpSwiGLU, core.Backward, again, core.Work{Products: 3 * 12 * 8 * 16, Elementwise: 3 * (16*10 + 8)}},
		{core.RMSNorm, core.Forward, norm, core.Work{Elementwise: 3 * 8 * 4}},
		{core.RMSNorm, core.Backward, norm, core.Work{Elementwise: 3 * 8 * 9}},
		{core.AddRMSNorm, core.Forward, norm, core.Work{Elementwise: 3 * 8 * 5}},
		{core.AddRMSNorm, core.Backward, norm, core.Work{Elementwise: 3 * 8 * 10}},
		{core.MoEGate, core.Forward, moe, core.Work{Elementwise: 3 * 4 * 4}},
		{core.MoEGate, core.Backward, moe, core.Work{Elementwise: 3 * 4 * 6}},
		{core.SwiGLU, core.Forward, glu, core.Work{Elementwise: 3 * 16 * 5}},
		{core.SwiGLU, core.Backward, glu, core.Work{Elementwise: 3 * 16 * 10}},
		{core.RoPE, core.Forward, rope, core.Work{Elementwise: 3 * 6 * 2 * 6}}, // two pairs for each of six heads
		{core.RoPE, core.Backward, rope, core.Work{Elementwise: 3 * 6 * 2 * 6}},
		{core.MoEExperts, core.Forward, moe, core.Work{Products: 3 * 2 * 2 * 3 * 8 * 16, Elementwise: 6 * (5*16 + 2*8)}},
		{core.MoEExperts, core.Backward, moe, core.Work{Products: 3 * 2 * 2 * 6 * 8 * 16, Elementwise: 6 * (12*16 + 2*8)}},
		{core.Attention, core.Forward, attention, core.Work{Products: 6 * 4 * 2 * 2 * 8, Elementwise: 6 * 4 * 4}}, // six pairs
		{core.Attention, core.Backward, attention, core.Work{Products: 6 * 4 * 5 * 2 * 8, Elementwise: 6 * 4 * 6}},
		{core.LinearCrossEntropy, core.Forward, loss, core.Work{Products: 3 * 2 * 8 * 16, Elementwise: 3 * 16 * 3}},
		{core.LinearCrossEntropy, core.Backward, loss, core.Work{Products: 3 * 6 * 8 * 16, Elementwise: 3 * 16 * 4}},
		{core.RMSNorm, core.Backward, frozen(norm), core.Work{Elementwise: 3 * 8 * 7}},
		{core.MoEExperts, core.Backward, frozen(moe), core.Work{Products: 3 * 2 * 2 * 3 * 8 * 16, Elementwise: 6 * (12*16 + 2*8)}},
		{core.LinearCrossEntropy, core.Backward, frozen(loss), core.Work{Products: 3 * 4 * 8 * 16, Elementwise: 3 * 16 * 4}},
		{"unknown", core.Forward, norm, core.Work{}},
	} {
		if got := core.NewWork(tt.op, tt.pass, tt.f, 3, 3); got != tt.want {
			t.Errorf("%s %s: %+v, want %+v", tt.op, tt.pass, got, tt.want)
		}
	}
	for _, op := range core.Ops() {
		if core.NewWork(op, core.Forward, validFacts(op), 3, 3).Flops() <= 0 {
			t.Errorf("%s counts no operations", op)
		}
	}
}

func frozen(f core.Facts) core.Facts {
	f.Frozen = true
	return f
}

func TestWorkOfAttentionIsThatOfTheKeysThatAreSeen(t *testing.T) {
	f := core.Facts{DType: core.Float32, HeadDim: 8, Heads: 4, KVHeads: 2}
	c, err := core.NewCall(core.Attention, core.Forward, f)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range c.Sig.In {
		c.In[i] = core.NewTensor(a.DType, a.Shape.Bind(4, 4)...)
	}
	for i, a := range c.Sig.Out {
		c.Out[i] = core.NewTensor(a.DType, a.Shape.Bind(4, 4)...)
	}
	// Two documents of two tokens, one of which sees nothing.
	copy(c.Input("keys").Int32s(), []int32{0, 1, 0, 2, 2, 2, 2, 4})
	if got, want := c.Work().Products, 5.0*4*2*2*8; got != want {
		t.Errorf("%g operations in products, want %g", got, want)
	}
	if got := core.NewWork(core.Attention, core.Forward, f, 4, 2).Products; got != 6*4*2*2*8 {
		t.Errorf("two rows of two positions have %g operations, want those of six pairs", got)
	}
}

func TestWorkOfACallCountsItsTensorsOnce(t *testing.T) {
	c, err := core.NewCall(core.SwiGLU, core.Backward, core.Facts{DType: core.BFloat16, Intermediate: 5, Activation: "silu", Layout: core.Separate})
	if err != nil {
		t.Fatal(err)
	}
	for _, tensors := range [][]core.Tensor{c.In, c.Out} {
		for i := range tensors {
			tensors[i] = core.NewTensor(core.BFloat16, 3, 5)
		}
	}
	want := core.Work{Bytes: 5 * 3 * 5 * 2, Elementwise: 3 * 5 * 10}
	if got := c.Work(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := c.Work().Plus(c.Work()); got.Bytes != 2*want.Bytes || got.Flops() != 2*want.Flops() {
		t.Errorf("twice the work is %+v", got)
	}
}
