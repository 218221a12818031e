package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

var passes = []core.Pass{core.Forward, core.Backward}

// uses returns every op under every layout, with facts small enough to write out.
func uses() map[string]use {
	all := map[string]use{}
	for _, op := range core.Ops() {
		all[string(op)] = use{op, validFacts(op)}
	}
	packed := validFacts(core.SwiGLU)
	packed.Layout = core.Packed
	all["swiglu packed"] = use{core.SwiGLU, packed}
	moe := validFacts(core.MoEExperts)
	moe.Layout = core.Packed
	unbiased := validFacts(core.MoEGate)
	unbiased.Bias = false
	all["moe_gate without bias"] = use{core.MoEGate, unbiased}
	all["moe_experts packed"] = use{core.MoEExperts, moe}
	for _, op := range []core.Op{core.RMSNorm, core.MoEExperts, core.LinearCrossEntropy} {
		frozen := validFacts(op)
		frozen.Frozen = true
		all[string(op)+" frozen"] = use{op, frozen}
	}
	gateUp := core.Facts{DType: core.BFloat16, WeightDType: core.Float32, Dim: 4, Intermediate: 6, Activation: "silu",
		Layout: core.Separate}
	all["gate_up_swiglu"] = use{core.GateUpSwiGLU, gateUp}
	gateUp.Layout, gateUp.Recompute, gateUp.WeightDType, gateUp.Frozen = core.Packed, true, core.Int8, true
	all["gate_up_swiglu again"] = use{core.GateUpSwiGLU, gateUp}
	qkv := core.Facts{DType: core.Float32, WeightDType: core.BFloat16, Dim: 4, HeadDim: 3, Heads: 2, KVHeads: 1, Bias: true}
	all["qkv"] = use{core.QKV, qkv}
	qkv.WeightDType, qkv.Frozen = core.Int8, true
	all["qkv int8"] = use{core.QKV, qkv}
	static := validFacts(core.LinearW8A8)
	static.Scaling = core.StaticScaling
	all["linear_w8a8 static"] = use{core.LinearW8A8, static}
	pre := core.Facts{DType: core.BFloat16, WeightDType: core.Float16, Dim: 4, Eps: 1e-6, Cast: core.CastBeforeWeight,
		Pairing: core.Half, RotaryDim: 2, HeadDim: 3, Heads: 2, KVHeads: 1, Bias: true, Residual: true}
	all["attention_pre"] = use{core.AttentionPre, pre}
	pre.WeightDType, pre.Scaling, pre.Bias, pre.Residual = core.Int8, core.StaticScaling, false, false
	pre.QKNorm, pre.NormBias = true, true
	all["attention_pre static"] = use{core.AttentionPre, pre}
	return all
}

type use struct {
	op    core.Op
	facts core.Facts
}

func TestSignature(t *testing.T) {
	tests := []struct {
		use     string
		pass    core.Pass
		in, out string
	}{
		{"rms_norm", core.Forward,
			"x float32[T 8], weight bfloat16[8]",
			"y float32[T 8], saved rstd float32[T]"},
		{"rms_norm", core.Backward,
			"dy float32[T 8], x float32[T 8], weight bfloat16[8], saved rstd float32[T]",
			"dx float32[T 8], dweight float32[8]"},
		{"rms_norm frozen", core.Backward,
			"dy float32[T 8], x float32[T 8], weight bfloat16[8], saved rstd float32[T]",
			"dx float32[T 8]"},
		{"add_rms_norm", core.Forward,
			"x float32[T 8], residual float32[T 8], weight bfloat16[8]",
			"y float32[T 8], h float32[T 8], saved rstd float32[T]"},
		{"add_rms_norm", core.Backward,
			"dy float32[T 8], dh float32[T 8], saved h float32[T 8], weight bfloat16[8], saved rstd float32[T]",
			"dx and dresidual float32[T 8], dweight float32[8]"},
		{"qkv", core.Forward,
			"x float32[T 4], q_weight bfloat16[6 4], k_weight bfloat16[3 4], v_weight bfloat16[3 4], q_bias float32[6], k_bias float32[3], v_bias float32[3]",
			"q float32[T 6], k float32[T 3], v float32[T 3]"},
		{"qkv", core.Backward,
			"dq float32[T 6], dk float32[T 3], dv float32[T 3], x float32[T 4], q_weight bfloat16[6 4], k_weight bfloat16[3 4], v_weight bfloat16[3 4]",
			"dx float32[T 4], dq_weight float32[6 4], dk_weight float32[3 4], dv_weight float32[3 4], dq_bias float32[6], dk_bias float32[3], dv_bias float32[3]"},
		{"qkv int8", core.Backward,
			"dq float32[T 6], dk float32[T 3], dv float32[T 3], q_weight int8[6 4], k_weight int8[3 4], v_weight int8[3 4], q_weight_scale float32[6], k_weight_scale float32[3], v_weight_scale float32[3]",
			"dx float32[T 4]"},
		{"gate_up_swiglu", core.Forward,
			"x bfloat16[T 4], gate float32[6 4], up float32[6 4]",
			"y bfloat16[T 6], saved gate_up_out bfloat16[T 12]"},
		{"gate_up_swiglu", core.Backward,
			"dy bfloat16[T 6], x bfloat16[T 4], gate float32[6 4], up float32[6 4], saved gate_up_out bfloat16[T 12]",
			"dx bfloat16[T 4], dgate float32[6 4], dup float32[6 4]"},
		{"gate_up_swiglu again", core.Backward,
			"dy bfloat16[T 6], x bfloat16[T 4], gate_up int8[12 4], gate_up_scale float32[12]",
			"dx bfloat16[T 4]"},
		{"moe_gate", core.Forward,
			"logits bfloat16[T 8], bias float32[8]",
			"routing_weights float32[T 2], expert_ids int32[T 2]"},
		{"moe_gate without bias", core.Forward,
			"logits bfloat16[T 8]",
			"routing_weights float32[T 2], expert_ids int32[T 2]"},
		{"moe_gate", core.Backward,
			"drouting_weights float32[T 2], logits bfloat16[T 8], saved expert_ids int32[T 2]",
			"dlogits bfloat16[T 8]"},
		{"swiglu", core.Forward,
			"gate bfloat16[T 6], up bfloat16[T 6]",
			"y bfloat16[T 6]"},
		{"swiglu", core.Backward,
			"dy bfloat16[T 6], gate bfloat16[T 6], up bfloat16[T 6]",
			"dgate bfloat16[T 6], dup bfloat16[T 6]"},
		{"swiglu packed", core.Forward,
			"gate_up bfloat16[T 12]",
			"y bfloat16[T 6]"},
		{"swiglu packed", core.Backward,
			"dy bfloat16[T 6], gate_up bfloat16[T 12]",
			"dgate_up bfloat16[T 12]"},
		{"rope", core.Forward,
			"q float32[T 4 6], k float32[T 2 6], cos float32[P 2], sin float32[P 2], positions int32[T]",
			"q_out float32[T 4 6], k_out float32[T 2 6]"},
		{"rope", core.Backward,
			"dq_out float32[T 4 6], dk_out float32[T 2 6], cos float32[P 2], sin float32[P 2], positions int32[T]",
			"dq float32[T 4 6], dk float32[T 2 6]"},
		{"moe_experts", core.Forward,
			"x float32[T 4], expert_ids int32[T 2], routing_weights float32[T 2], 3 gate float32[6 4], 3 up float32[6 4], 3 down float32[4 6]",
			"y float32[T 4], saved gate_up_out float32[T 2 12]"},
		{"moe_experts", core.Backward,
			"dy float32[T 4], x float32[T 4], expert_ids int32[T 2], routing_weights float32[T 2], 3 gate float32[6 4], 3 up float32[6 4], 3 down float32[4 6], saved gate_up_out float32[T 2 12]",
			"dx float32[T 4], drouting_weights float32[T 2], 3 dgate float32[6 4], 3 dup float32[6 4], 3 ddown float32[4 6]"},
		{"moe_experts packed", core.Forward,
			"x float32[T 4], expert_ids int32[T 2], routing_weights float32[T 2], gate_up float32[3 12 4], down float32[3 4 6]",
			"y float32[T 4], saved gate_up_out float32[T 2 12]"},
		{"moe_experts packed", core.Backward,
			"dy float32[T 4], x float32[T 4], expert_ids int32[T 2], routing_weights float32[T 2], gate_up float32[3 12 4], down float32[3 4 6], saved gate_up_out float32[T 2 12]",
			"dx float32[T 4], drouting_weights float32[T 2], dgate_up float32[3 12 4], ddown float32[3 4 6]"},
		{"linear_w8a8", core.Forward,
			"x float32[T 64], weight int8[96 64], weight_scale float32[96]", "y float32[T 96]"},
		{"linear_w8a8 static", core.Forward,
			"x float32[T 64], weight int8[96 64], input_scale float32[1], input_offset int32[1], deq_scale float32[96], quant_bias int32[96]",
			"y float32[T 96]"},
		{"linear_w8a8", core.Backward, "", ""},
		{"attention_pre", core.Forward,
			"x bfloat16[T 4], residual bfloat16[T 4], norm_weight float32[4], " +
				"q_weight float16[6 4], k_weight float16[3 4], v_weight float16[3 4], " +
				"q_bias float32[6], k_bias float32[3], v_bias float32[3], " +
				"cos float32[P 1], sin float32[P 1], positions int32[T]",
			"q bfloat16[T 2 3], k bfloat16[T 1 3], v bfloat16[T 1 3], h bfloat16[T 4]"},
		{"attention_pre static", core.Forward,
			"x bfloat16[T 4], norm_weight float32[4], norm_bias float32[4], input_scale float32[1], input_offset int32[1], " +
				"q_weight int8[6 4], q_deq_scale float32[6], q_quant_bias int32[6], " +
				"k_weight int8[3 4], k_deq_scale float32[3], k_quant_bias int32[3], " +
				"v_weight int8[3 4], v_deq_scale float32[3], v_quant_bias int32[3], " +
				"q_norm_weight float32[3], q_norm_bias float32[3], k_norm_weight float32[3], k_norm_bias float32[3], " +
				"cos float32[P 1], sin float32[P 1], positions int32[T]",
			"q bfloat16[T 2 3], k bfloat16[T 1 3], v bfloat16[T 1 3]"},
		{"attention_pre", core.Backward, "", ""},
		{"paged_attention", core.Forward,
			"q float32[T 4 16], k_cache float32[P 8 2 16], v_cache float32[P 8 2 16], block_tables int32[B M], query_lens int32[B], seq_lens int32[B]",
			"y float32[T 4 16]"},
		{"reshape_and_cache", core.Forward, "k float32[T 2 16], v float32[T 2 16], slots int32[T]",
			"k_cache float32[P 8 2 16], v_cache float32[P 8 2 16]"},
		{"moe_experts frozen", core.Backward,
			"dy float32[T 4], x float32[T 4], expert_ids int32[T 2], routing_weights float32[T 2], 3 gate float32[6 4], 3 up float32[6 4], 3 down float32[4 6], saved gate_up_out float32[T 2 12]",
			"dx float32[T 4], drouting_weights float32[T 2]"},
	}
	for _, tt := range tests {
		t.Run(tt.use+" "+tt.pass.String(), func(t *testing.T) {
			u := uses()[tt.use]
			sig, err := core.NewSignature(u.op, tt.pass, u.facts)
			if err != nil {
				t.Fatal(err)
			}
			if got := formatArgs(sig.In); got != tt.in {
				t.Errorf("takes %s\nwant  %s", got, tt.in)
			}
			if got := formatArgs(sig.Out); got != tt.out {
				t.Errorf("gives %s\nwant  %s", got, tt.out)
			}
		})
	}
}

func formatArgs(args []core.Arg) string {
	var words []string
	for _, a := range args {
		shape := strings.NewReplacer("-1", "T", "-2", "P", "-3", "B", "-4", "M").Replace(a.Shape.String())
		name := a.Name
		if a.Also != "" {
			name += " and d" + a.Also
		}
		word := fmt.Sprintf("%s %s%s", name, a.DType, shape)
		if a.Count != 1 {
			word = fmt.Sprintf("%d %s", a.Count, word)
		}
		if a.Saved {
			word = "saved " + word
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func TestSignatureNeedsValidFacts(t *testing.T) {
	if _, err := core.NewSignature(core.RMSNorm, core.Forward, core.Facts{}); err == nil {
		t.Error("no error")
	}
	if _, err := core.NewCall("softmax", core.Forward, core.Facts{DType: core.Float32}); err == nil {
		t.Error("no error for an op that does not exist")
	}
}

// eachCall runs f on a call that is right, for every op, layout and pass.
func eachCall(t *testing.T, f func(t *testing.T, c *core.Call)) {
	for name, u := range uses() {
		for _, pass := range u.op.Passes() {
			t.Run(name+" "+pass.String(), func(t *testing.T) { f(t, newCall(t, u, pass, 5)) })
		}
	}
}

// newCall returns a call on zeroed tensors.
func newCall(t *testing.T, u use, pass core.Pass, tokens int) *core.Call {
	t.Helper()
	c, err := core.NewCall(u.op, pass, u.facts)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range slices.Concat(c.Sig.In, c.Sig.Out) {
		tensors := make([]core.Tensor, a.Count)
		for i := range tensors {
			tensors[i] = core.NewTensor(a.DType, a.Shape.Bind(tokens, 9)...)
			for t := range tokens {
				if a.Name == "slots" { // which differ
					tensors[i].Int32s()[t] = int32(t)
				}
			}
		}
		c.Set(a.Name, tensors...)
	}
	return c
}

func TestCheckAcceptsEveryRightCall(t *testing.T) {
	eachCall(t, func(t *testing.T, c *core.Call) {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if c.Tokens() != 5 {
			t.Errorf("%d tokens, want 5", c.Tokens())
		}
	})
}

func TestCheckAcceptsNoTokensAtAll(t *testing.T) {
	for name, u := range uses() {
		if err := newCall(t, u, core.Forward, 0).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckNoticesEveryWrongTensor(t *testing.T) {
	faults := map[string]func(core.Tensor) core.Tensor{
		"missing":       func(core.Tensor) core.Tensor { return core.Tensor{} },
		"other dtype":   func(x core.Tensor) core.Tensor { return core.NewTensor(core.Int64, x.Shape...) },
		"one axis more": func(x core.Tensor) core.Tensor { return core.NewTensor(x.DType, append(slices.Clone(x.Shape), 1)...) },
		"one axis less": func(x core.Tensor) core.Tensor { return core.NewTensor(x.DType, x.Shape[1:]...) },
		"no elements":   func(x core.Tensor) core.Tensor { return core.NewTensor(x.DType, make([]int, len(x.Shape))...) },
		"short data":    func(x core.Tensor) core.Tensor { x.Data = x.Data[1:]; return x },
	}
	for i := range 3 {
		faults[fmt.Sprintf("axis %d longer", i)] = func(x core.Tensor) core.Tensor {
			shape := slices.Clone(x.Shape)
			shape[min(i, len(shape)-1)]++
			return core.NewTensor(x.DType, shape...)
		}
	}
	eachCall(t, func(t *testing.T, c *core.Call) {
		for _, tensors := range [][]core.Tensor{c.In, c.Out} {
			for i, right := range tensors {
				for fault, spoil := range faults {
					if c.Op == core.PagedAttention && i == 3 && (fault == "axis 1 longer" || fault == "axis 2 longer") {
						continue // tables may have any number of places
					}
					tensors[i] = spoil(right)
					if err := c.Check(); !errors.Is(err, core.ErrBadCall) {
						t.Errorf("tensor %d, %s: error %v, want ErrBadCall", i, fault, err)
					}
				}
				tensors[i] = right
			}
		}
	})
}

func TestCheckSaysWhichTensorIsWrongAndWhatIsWanted(t *testing.T) {
	c := newCall(t, uses()["moe_experts"], core.Backward, 5)
	c.Inputs("up")[2] = core.NewTensor(core.Float32, 4, 6)
	if got, want := c.Check().Error(), "bad call: moe_experts backward: input up[2] is float32[4 6], want float32[6 4]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c = newCall(t, uses()["rms_norm"], core.Forward, 5)
	c.Set("rstd", core.NewTensor(core.Float32, 4))
	if got, want := c.Check().Error(), "bad call: rms_norm forward: output rstd is float32[4], want float32[T]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCheckBindsNoTokensLikeAnyNumber(t *testing.T) {
	c := newCall(t, uses()["rms_norm"], core.Forward, 0)
	c.Set("rstd", core.NewTensor(core.Float32, 7))
	wantErrorIs(t, c.Check(), core.ErrBadCall)
}

func TestCheckNoticesAWrongNumberOfTensors(t *testing.T) {
	eachCall(t, func(t *testing.T, c *core.Call) {
		c.Out = c.Out[1:]
		wantErrorIs(t, c.Check(), core.ErrBadCall)
	})
}

func TestCallFindsTensorsByName(t *testing.T) {
	c := newCall(t, uses()["moe_experts"], core.Forward, 5)
	x := core.NewTensor(core.Float32, 5, 4)
	c.Set("x", x)
	if &c.Input("x").Data[0] != &x.Data[0] || &c.In[0].Data[0] != &x.Data[0] {
		t.Error("x is not where the signature says")
	}
	// Three tensors come before the experts' gates, three gates before the ups.
	if &c.Inputs("up")[1].Data[0] != &c.In[3+3+1].Data[0] {
		t.Error("up[1] is not where the signature says")
	}
	if &c.Output("gate_up_out").Data[0] != &c.Out[1].Data[0] {
		t.Error("gate_up_out is not where the signature says")
	}
}

func TestMistakesWithNamesPanic(t *testing.T) {
	c := newCall(t, uses()["moe_experts"], core.Forward, 5)
	x := core.NewTensor(core.Float32, 5, 4)
	for name, f := range map[string]func(){
		"unknown input":   func() { c.Input("gate_up") },
		"unknown output":  func() { c.Output("x") },
		"unknown to set":  func() { c.Set("dx", x) },
		"too few to set":  func() { c.Set("gate", x) },
		"too many to set": func() { c.Set("x", x, x) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
