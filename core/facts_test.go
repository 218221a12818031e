package core_test

import (
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestValidFactsOfEveryOp(t *testing.T) {
	for name, u := range uses() {
		if err := u.facts.Validate(u.op); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesTheFactThatIsWrong(t *testing.T) {
	tests := []struct {
		op    core.Op
		want  string
		spoil func(f *core.Facts)
	}{
		{core.RMSNorm, "dtype must", func(f *core.Facts) { f.DType = core.Int32 }},
		{core.RMSNorm, "weight_dtype must", func(f *core.Facts) { f.WeightDType = core.InvalidDType }},
		{core.RMSNorm, "dim must", func(f *core.Facts) { f.Dim = 0 }},
		{core.RMSNorm, "eps must", func(f *core.Facts) { f.Eps = -1e-6 }},
		{core.RMSNorm, "eps must", func(f *core.Facts) { f.Eps = math.NaN() }},
		{core.RMSNorm, "offset must", func(f *core.Facts) { f.Offset = 2 }},
		{core.RMSNorm, "cast must", func(f *core.Facts) { f.Cast = "" }},
		{core.AddRMSNorm, "cast must", func(f *core.Facts) { f.Cast = "" }},
		{core.AddRMSNorm, "weight_dtype must", func(f *core.Facts) { f.WeightDType = core.InvalidDType }},
		{core.MoEGate, "top_k must", func(f *core.Facts) { f.TopK = f.Experts + 1 }},
		{core.MoEGate, "scoring must", func(f *core.Facts) { f.Scoring = "" }},
		{core.MoEGate, "groups must divide", func(f *core.Facts) { f.Groups = 0 }},
		{core.MoEGate, "groups must divide", func(f *core.Facts) { f.Groups = 3 }},
		{core.MoEGate, "two experts", func(f *core.Facts) { f.Groups = 8 }},
		{core.MoEGate, "top_groups must", func(f *core.Facts) { f.TopGroups = 5 }},
		{core.MoEGate, "top_groups must", func(f *core.Facts) { f.TopGroups = 0 }},
		{core.MoEGate, "scale must", func(f *core.Facts) { f.Scale = 0 }},
		{core.MoEGate, "scale must", func(f *core.Facts) { f.Scale = math.NaN() }},
		{core.MoEGate, "scale must", func(f *core.Facts) { f.Scale = math.Inf(1) }},
		{core.SwiGLU, "dtype must", func(f *core.Facts) { f.DType = core.InvalidDType }},
		{core.SwiGLU, "intermediate must", func(f *core.Facts) { f.Intermediate = -1 }},
		{core.SwiGLU, "layout must", func(f *core.Facts) { f.Layout = core.PerExpert }},
		{core.SwiGLU, "activation must", func(f *core.Facts) { f.Activation = "" }},
		{core.RoPE, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.HeadDim = 0 }},
		{core.RoPE, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.Heads = 0 }},
		{core.RoPE, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.KVHeads = 0 }},
		{core.RoPE, "rotary_dim must", func(f *core.Facts) { f.RotaryDim = 0 }},
		{core.RoPE, "rotary_dim must", func(f *core.Facts) { f.RotaryDim = 3 }},
		{core.RoPE, "rotary_dim must", func(f *core.Facts) { f.RotaryDim = f.HeadDim + 2 }},
		{core.RoPE, "pairing must", func(f *core.Facts) { f.Pairing = "" }},
		{core.MoEExperts, "weight_dtype must", func(f *core.Facts) { f.WeightDType = core.Int32 }},
		{core.MoEExperts, "dim and intermediate must", func(f *core.Facts) { f.Dim = 0 }},
		{core.MoEExperts, "dim and intermediate must", func(f *core.Facts) { f.Intermediate = 0 }},
		{core.MoEExperts, "top_k must", func(f *core.Facts) { f.TopK = 0 }},
		{core.MoEExperts, "top_k must", func(f *core.Facts) { f.TopK = f.Experts + 1 }},
		{core.MoEExperts, "layout must", func(f *core.Facts) { f.Layout = core.Separate }},
		{core.MoEExperts, "routing must", func(f *core.Facts) { f.Routing = "" }},
		{core.MoEExperts, "activation must", func(f *core.Facts) { f.Activation = "" }},
		{core.LinearW8A8, "scaling must", func(f *core.Facts) { f.Scaling = "" }},
		{core.LinearW8A8, "dim must", func(f *core.Facts) { f.Dim = 1 << 17 }},
		{core.LinearW8A8, "out must", func(f *core.Facts) { f.Out = 0 }},
		{core.LinearW8A8, "bias is for dynamic", func(f *core.Facts) { f.Scaling, f.Bias = core.StaticScaling, true }},
		{core.AttentionPre, "eps must", func(f *core.Facts) { f.Eps = -1 }},
		{core.AttentionPre, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.KVHeads = 0 }},
		{core.AttentionPre, "rotary_dim must", func(f *core.Facts) { f.RotaryDim = 3 }},
		{core.AttentionPre, "weight_dtype must", func(f *core.Facts) { f.WeightDType = core.Int32 }},
		{core.AttentionPre, "weights must be int8", func(f *core.Facts) { f.Scaling = core.DynamicScaling }},
		{core.AttentionPre, "bias is for dynamic", func(f *core.Facts) {
			f.WeightDType, f.Scaling, f.Bias = core.Int8, core.StaticScaling, true
		}},
		{core.SharedExpertFFN, "dim and intermediate must", func(f *core.Facts) { f.Dim = 0 }},
		{core.SharedExpertFFN, "dim and intermediate must", func(f *core.Facts) { f.Intermediate = 1 << 17 }},
		{core.SharedExpertFFN, "layout must", func(f *core.Facts) { f.Layout = core.PerExpert }},
		{core.SharedExpertFFN, "activation must", func(f *core.Facts) { f.Activation = "" }},
		{core.GateUpSwiGLU, "dim and intermediate must", func(f *core.Facts) { f.Dim = 0 }},
		{core.GateUpSwiGLU, "dim and intermediate must", func(f *core.Facts) { f.Intermediate = 0 }},
		{core.GateUpSwiGLU, "layout must", func(f *core.Facts) { f.Layout = core.PerExpert }},
		{core.GateUpSwiGLU, "activation must", func(f *core.Facts) { f.Activation = "" }},
		{core.QKV, "dim must", func(f *core.Facts) { f.Dim = 0 }},
		{core.QKV, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.HeadDim = 0 }},
		{core.QKV, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.Heads = 0 }},
		{core.QKV, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.KVHeads = 0 }},
		{core.Attention, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.HeadDim = 0 }},
		{core.Attention, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.Heads = 0 }},
		{core.Attention, "head_dim, heads and kv_heads must", func(f *core.Facts) { f.KVHeads = 0 }},
		{core.Attention, "multiple of kv_heads", func(f *core.Facts) { f.KVHeads = 3 }},
		{core.PagedAttention, "multiple of kv_heads", func(f *core.Facts) { f.KVHeads = 3 }},
		{core.PagedAttention, "block_size must", func(f *core.Facts) { f.BlockSize = 0 }},
		{core.PagedAttention, "window must", func(f *core.Facts) { f.Window = -1 }},
		{core.PagedAttention, "scale must", func(f *core.Facts) { f.Scale = 0 }},
		{core.PagedAttention, "scale must", func(f *core.Facts) { f.Scale = math.Inf(1) }},
		{core.ReshapeAndCache, "head_dim and kv_heads must", func(f *core.Facts) { f.HeadDim = 0 }},
		{core.ReshapeAndCache, "head_dim and kv_heads must", func(f *core.Facts) { f.KVHeads = 0 }},
		{core.ReshapeAndCache, "block_size must", func(f *core.Facts) { f.BlockSize = 0 }},
		{core.LinearCrossEntropy, "dim and vocab must", func(f *core.Facts) { f.Dim = 0 }},
		{core.LinearCrossEntropy, "dim and vocab must", func(f *core.Facts) { f.Vocab = 0 }},
		{core.Linear, "dim and out must", func(f *core.Facts) { f.Dim = 0 }},
		{core.Linear, "dim and out must", func(f *core.Facts) { f.Out = 0 }},
		{core.Linear, "rank must", func(f *core.Facts) { f.Rank, f.Scale = -1, 0 }},
		{core.Linear, "an adapter has a rank and a scale", func(f *core.Facts) { f.Rank, f.Scale = 2, 0 }},
		{core.Linear, "scale must be finite", func(f *core.Facts) { f.Rank, f.Scale = 2, math.NaN() }},
		{core.Linear, "scale must be finite", func(f *core.Facts) { f.Rank, f.Scale = 2, math.Inf(-1) }},
		{core.Linear, "products can be", func(f *core.Facts) { f.Products = core.Float16 }},
		{core.Linear, "products can be", func(f *core.Facts) { f.Products = core.DType(99) }},
		{core.Linear, "products can be", func(f *core.Facts) { f.DType, f.Products = core.Float64, core.BFloat16 }},
		{core.RMSNorm, "products is for", func(f *core.Facts) { f.Products = core.BFloat16 }},
		{"softmax", `unknown op "softmax"; known: [add_rms_norm`, func(*core.Facts) {}},
	}
	for _, tt := range tests {
		t.Run(string(tt.op)+" "+tt.want, func(t *testing.T) {
			f := core.Facts{DType: core.Float32}
			if tt.op != "softmax" {
				f = validFacts(tt.op)
			}
			tt.spoil(&f)
			err := f.Validate(tt.op)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	err := core.Facts{}.Validate(core.RMSNorm)
	if err == nil || strings.Count(err.Error(), ";") != 3 {
		t.Errorf("error %v, want dtype, weight_dtype, dim and cast", err)
	}
	pre := validFacts(core.AttentionPre)
	pre.Heads = 0
	if err := pre.Validate(core.AttentionPre); err == nil || strings.Contains(err.Error(), ";") {
		t.Errorf("error %v, want one fault, once", err)
	}
}

func TestFactsStringShowsWhatIsSet(t *testing.T) {
	for op, want := range map[core.Op]string{
		core.RMSNorm:    "float32 weight_dtype=bfloat16 dim=8 eps=1e-05",
		core.MoEGate:    "bfloat16 experts=8 top_k=2 scoring=sigmoid bias=true groups=4 top_groups=2 normalize=true scale=2.5",
		core.SwiGLU:     "bfloat16 intermediate=6 activation=silu layout=separate",
		core.RoPE:       "float32 pairing=half rotary_dim=4 head_dim=6 heads=4 kv_heads=2",
		core.MoEExperts: "float32 dim=4 intermediate=6 activation=silu layout=per_expert experts=3 top_k=2 routing=normalized",
	} {
		if got := validFacts(op).String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
