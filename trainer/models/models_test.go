package models_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

// types are the families that there are, so that a new one is in every test.
func types() (all []string) {
	for _, f := range models.Families() {
		all = append(all, f.Type)
	}
	return all
}

// family is the small model of a family, changed; of an unknown type, it is llama's.
func family(name string, change ...func(map[string]any)) []byte {
	all := models.Families()
	i := slices.Index(types(), name)
	if i < 0 {
		i = slices.Index(types(), "llama")
	}
	c := all[i].Small()
	c["model_type"] = name
	for _, f := range change {
		f(c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // maps of numbers always marshal
	}
	return text
}

// with sets a field; a nil value takes it away.
func with(name string, value any) func(map[string]any) {
	return func(c map[string]any) {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
}

func newModel(t *testing.T, config []byte, seed uint64) *models.Model {
	t.Helper()
	m, err := models.New(config, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(seed)
	return m
}

func TestSwishIsSiLU(t *testing.T) {
	newModel(t, family("qwen3", with("hidden_act", "swish")), 1)
}

func TestConfigurationErrorsNameTheField(t *testing.T) {
	tests := []struct {
		name   string
		config []byte
		want   string
	}{
		{"not JSON", []byte("{"), "config.json: the JSON ends"},
		{"text after the end", []byte(`{"model_type": "llama"} {}`), "config.json: no JSON at column 25: unexpected '{'"},
		{"no type", family("llama", with("model_type", nil)), "model_type is missing; supported: " + strings.Join(types(), ", ")},
		{"unknown type", family("mamba"), `model_type "mamba" is not supported; supported: ` + strings.Join(types(), ", ")},
		{"a part that is known", family("gemma3", with("text_config", map[string]any{"model_type": "gemma3_text"})),
			`model_type "gemma3" is not supported; that of its text_config, "gemma3_text", is`},
		{"no part that is known", family("llava", with("text_config", map[string]any{"model_type": "opt"})), `model_type "llava" is not supported; supported: `},
		{"text for a number", family("llama", with("hidden_size", "big")), "field hidden_size: want a whole number, have a string"},
		{"text for a number in a sparse model", family("qwen3_moe", with("num_experts", "many")), "field num_experts: want a whole number, have a string"},
		{"text for a shared number in a sparse model", family("qwen3_moe", with("vocab_size", "all")), "field vocab_size: want a whole number, have a string"},
		{"no vocabulary", family("llama", with("vocab_size", nil)), "vocab_size is 0"},
		{"no width", family("qwen3", with("hidden_size", 0)), "hidden_size is 0"},
		{"no intermediate size", family("llama", with("intermediate_size", nil)), "intermediate_size is 0"},
		{"no layers", family("llama", with("num_hidden_layers", -1)), "num_hidden_layers is -1"},
		{"no heads", family("llama", with("num_attention_heads", 0)), "num_attention_heads is 0"},
		{"heads that do not divide", family("llama", with("num_key_value_heads", 3)), "num_attention_heads (4) must be a multiple of num_key_value_heads (3)"},
		{"negative head size", family("llama", with("head_dim", -6)), "head_dim is -6"},
		{"negative length", family("llama", with("max_position_embeddings", -1)), "max_position_embeddings is -1"},
		{"negative epsilon", family("llama", with("rms_norm_eps", -1e-5)), "rms_norm_eps is -1e-05"},
		{"another activation", family("qwen3", with("hidden_act", "gelu")), `hidden_act "gelu" is not supported`},
		{"dropout", family("llama", with("attention_dropout", 0.1)), "attention_dropout 0.1"},
		{"a window in a family without", family("llama", with("use_sliding_window", true)), "use_sliding_window is not supported by model_type llama"},
		{"no width of a window", family("qwen3", with("use_sliding_window", true), with("sliding_window", 0)), "sliding_window is 0"},
		{"a negative window", family("mistral", with("sliding_window", -4)), "sliding_window is -4"},
		{"too few types of layers", family("qwen2", with("layer_types", []string{"full_attention"})), "layer_types has 1 entries for num_hidden_layers 2"},
		{"an unknown type of layer", family("qwen3", with("layer_types", []string{"full_attention", "linear_attention"})), `layer_types: "linear_attention" of layer 1`},
		{"a windowed layer without a window", family("qwen3", with("layer_types", []string{"sliding_attention", "full_attention"})), "layer 0 is sliding_attention, but no sliding_window"},
		{"a full layer in a family of windows", family("mistral", with("layer_types", []string{"sliding_attention", "full_attention"})), "layer 1 cannot be full_attention in model_type mistral"},
		{"a windowed layer in a family without", family("glm4", with("layer_types", []string{"sliding_attention", "full_attention"})), "layer 0 is sliding_attention"},
		{"biases of the MLP", family("mistral", with("mlp_bias", true)), "mlp_bias is not supported by model_type mistral"},
		{"part of a head in a family that rotates all", family("qwen2", with("partial_rotary_factor", 0.5)), "partial_rotary_factor 0.5 is not supported by model_type qwen2"},
		{"tokens that see later ones", family("qwen2", with("is_causal", false)), "is_causal"},
		{"positions with axes", family("qwen2", with("use_mrope", true)), "use_mrope"},
		{"tensor parallelism", family("llama", with("pretraining_tp", 2)), "pretraining_tp 2"},
		{"quantized", family("llama", with("quantization_config", map[string]any{"bits": 4})), "quantization_config"},
		{"padding outside", family("llama", with("pad_token_id", 29)), "pad_token_id is outside"},
		{"rope", family("llama", with("rope_scaling", map[string]any{"rope_type": "dynamic", "factor": 2})), `rope_type "dynamic"`},
		{"two ropes", family("llama", with("rope_scaling", map[string]any{"rope_type": "linear", "factor": 2}),
			with("rope_parameters", map[string]any{"rope_type": "default", "rope_theta": 1e4})), "rope_scaling and rope_parameters differ"},
		{"two bases", family("qwen3", with("rope_theta", 1e6), with("rope_parameters", map[string]any{"rope_type": "default", "rope_theta": 1e4})),
			"rope_theta is 1e+06, and 10000 in rope_parameters"},
		{"more experts a token than experts", family("qwen3_moe", with("num_experts_per_tok", 5)), "num_experts_per_tok (5) must be between 1 and num_experts (4)"},
		{"no experts", family("qwen3_moe", with("num_experts", 0)), "num_experts (0)"},
		{"no width of experts", family("qwen3_moe", with("moe_intermediate_size", 0)), "moe_intermediate_size is 0"},
		{"no sparse step", family("qwen3_moe", with("decoder_sparse_step", -1)), "decoder_sparse_step is -1"},
		{"more experts than make sense", family("qwen3_moe", with("num_experts", 1<<20)), "num_experts is 1048576"},
		{"a negative auxiliary loss", family("qwen3_moe", with("router_aux_loss_coef", -1)), "router_aux_loss_coef is -1"},
		{"auxiliary loss in a family without", family("glm4_moe", with("output_router_logits", true)), "output_router_logits is not supported by model_type glm4_moe"},
		{"no shared expert", family("glm4_moe", with("n_shared_experts", 0)), "n_shared_experts is 0"},
		{"groups that do not divide", family("glm4_moe", with("n_group", 3)), "n_group (3) must divide n_routed_experts (8)"},
		{"groups of one", family("glm4_moe", with("n_group", 8)), "n_group (8) must divide"},
		{"more groups of a token than groups", family("glm4_moe", with("topk_group", 5)), "topk_group (5) must be between 1 and n_group (4)"},
		{"no scale of experts", family("glm4_moe", with("routed_scaling_factor", 0)), "routed_scaling_factor is 0"},
		{"a negative number of dense layers", family("glm4_moe", with("first_k_dense_replace", -1)), "first_k_dense_replace is -1"},
		{"another scoring", family("glm4_moe", with("scoring_func", "softmax")), `scoring_func "softmax"`},
		{"another choice", family("glm4_moe", with("topk_method", "greedy")), `topk_method "greedy"`},
		{"dropout of what is added", family("phi3", with("resid_pdrop", 0.1)), "resid_pdrop 0.1"},
		{"another rope than longrope", family("phi3", with("rope_scaling", map[string]any{"type": "linear", "factor": 2})), `rope_type "linear" is not supported by model_type phi3`},
		{"biases of packed projections", family("phi3", with("mlp_bias", true)), "mlp_bias is not supported by model_type phi3"},
		{"fewer layers with positions than layers", family("smollm3", with("no_rope_layers", []int{1})), "no_rope_layers has 1 entries for num_hidden_layers 2"},
		{"no interval of positions", family("smollm3", with("no_rope_layer_interval", 0)), "no_rope_layer_interval is 0"},
		{"a window in a layer of full attention", family("smollm3", with("use_sliding_window", false), with("layer_types", []string{"sliding_attention", "full_attention"})), "layer 0 is sliding_attention, but no"},
		{"no factor of logits", family("granite", with("logits_scaling", 0)), "logits_scaling is 0, must be positive"},
		{"a factor beyond float32", family("granite", with("residual_multiplier", 1e300)), "residual_multiplier is 1e+300"},
		{"noise of the router", family("mixtral", with("router_jitter_noise", 0.1)), "router_jitter_noise 0.1"},
		{"no local experts", family("mixtral", with("num_local_experts", 0)), "num_local_experts (0)"},
		{"biases of experts", family("ernie4_5_moe", with("use_bias", true)), "use_bias is not supported by model_type ernie4_5_moe"},
		{"two numbers of experts a token", family("ernie4_5_moe", with("num_experts_per_tok", 3)), "moe_k is 2, and num_experts_per_tok 3"},
		{"no interval of experts", family("ernie4_5_moe", with("moe_layer_interval", 0)), "moe_layer_interval is 0"},
		{"another gelu", family("gemma2", with("hidden_activation", "gelu")), `hidden_activation "gelu" is not supported`},
		{"another hidden_act", family("gemma3_text", with("hidden_act", "silu")), `hidden_act "silu" is not supported; supported: gelu_pytorch_tanh`},
		{"no scale of queries", family("gemma2", with("query_pre_attn_scalar", 0)), "query_pre_attn_scalar is 0"},
		{"a negative cap", family("gemma2", with("attn_logit_softcapping", -50)), "attn_logit_softcapping is -50"},
		// transformers: models/gemma3/modeling_gemma3.py, Gemma3Attention, keeps the number and never uses it
		{"a cap of scores that counts for none", family("gemma3_text", with("attn_logit_softcapping", 50)), "attn_logit_softcapping 50 is not supported by model_type gemma3_text"},
		{"no cap of logits", family("gemma2", with("final_logit_softcapping", 0)), "final_logit_softcapping is 0"},
		{"tokens that see all", family("gemma3_text", with("use_bidirectional_attention", true)), "use_bidirectional_attention"},
		{"no pattern of windows", family("gemma3_text", with("sliding_window_pattern", 0)), "sliding_window_pattern is 0"},
		{"a base beside those of layers", family("gemma3_text", with("rope_scaling", nil), with("rope_parameters", map[string]any{"rope_theta": 5e5})),
			"rope_parameters: model_type gemma3_text has fields of it in full_attention and sliding_attention"},
		{"a layer's type without a rope", family("gemma3_text", with("rope_scaling", nil), with("rope_parameters", map[string]any{"chunked_attention": map[string]any{}})),
			"rope_parameters: model_type gemma3_text"},
		{"two local bases", family("gemma3_text", with("rope_scaling", nil), with("rope_local_base_freq", 5000),
			with("rope_parameters", map[string]any{"sliding_attention": map[string]any{"rope_theta": 1e4}})),
			"rope_local_base_freq is 5000, and rope_theta 10000 in sliding_attention"},
		{"two global bases", family("gemma3_text", with("rope_scaling", nil), with("rope_theta", 5000),
			with("rope_parameters", map[string]any{"full_attention": map[string]any{"rope_theta": 1e4}})), "rope_theta is 5000, and 10000"},
		{"a part of windowed heads", family("gemma3_text", with("rope_scaling", nil), with("head_dim", 8),
			with("rope_parameters", map[string]any{"sliding_attention": map[string]any{"partial_rotary_factor": 0.5}})), "partial_rotary_factor of sliding_attention"},
		{"two forms for all layers", family("gemma3_text", with("rope_parameters", map[string]any{"full_attention": map[string]any{"rope_type": "default"}})),
			"rope_scaling and rope_parameters differ"},
		{"ropes by layer", family("qwen3", with("rope_parameters", map[string]any{"full_attention": map[string]any{"rope_type": "default"}})),
			"full_attention and sliding_attention with fields of their own are not supported by model_type qwen3"},
		{"layers of their own", family("llama", with("per_layer_config", map[string]any{"1": map[string]any{"rms_norm_eps": 1e-5}})), "per_layer_config is not supported"},
		{"two numbers of experts", family("qwen3_moe", with("num_local_experts", 8)), "num_experts is 4, and num_local_experts 8"},
		{"no local base", family("gemma3_text", with("rope_local_base_freq", 0)), "rope_local_base_freq is 0"},
		{"no limit of an activation", family("gpt_oss", with("swiglu_limit", 0)), "swiglu_limit is 0"},
		{"another slope of an activation", family("gpt_oss", with("swiglu_alpha", 1)), "swiglu_alpha 1 is not supported; supported: 1.702"},
		{"no rope where versions differ in it", family("gpt_oss", with("rope_scaling", nil)), `rope_scaling has no rope_type`},
		{"a rope of null where versions differ in it", family("gpt_oss", func(c map[string]any) { c["rope_scaling"] = nil }),
			`that of the published models is {"rope_type": "yarn"`},
		{"logits of a router", family("gpt_oss", with("output_router_logits", true)), "output_router_logits is not supported by model_type gpt_oss"},
		{"keys of fewer heads", family("deepseek_v3", with("num_key_value_heads", 2)), "num_key_value_heads 2 is not supported by model_type deepseek_v3"},
		{"no rank of queries", family("deepseek_v3", with("q_lora_rank", 0)), "q_lora_rank is 0, must be positive, or null"},
		{"no values", family("deepseek_v3", with("v_head_dim", 0)), "v_head_dim is 0"},
		{"an odd part that rotates", family("deepseek_v3", with("qk_rope_head_dim", 3)), "give no even rotary size"},
		{"another choice of deepseek", family("deepseek_v3", with("topk_method", "greedy")), `topk_method "greedy" is not supported by model_type deepseek_v3`},
		{"experts in some layers", family("glm4_moe", with("moe_layer_freq", 2)), "moe_layer_freq 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := models.New(tt.config, autograd.Heap{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestSitesDeclareTheirFacts counts sites by op and looks at what tells them apart.
func TestSitesDeclareTheirFacts(t *testing.T) {
	tests := map[string]map[core.Op]int{
		"glm4":      {core.RMSNorm: 9, core.QKV: 2, core.GateUpSwiGLU: 2, core.Linear: 13, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"glm4_moe":  {core.RMSNorm: 9, core.QKV: 2, core.GateUpSwiGLU: 2, core.Linear: 16, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.MoEGate: 1, core.MoEExperts: 1, core.LinearCrossEntropy: 1},
		"mistral":   {core.RMSNorm: 5, core.QKV: 2, core.GateUpSwiGLU: 2, core.Linear: 15, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"phi3":      {core.RMSNorm: 5, core.GateUpSwiGLU: 2, core.Linear: 9, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"qwen2":     {core.RMSNorm: 5, core.QKV: 2, core.GateUpSwiGLU: 2, core.Linear: 15, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"llama":     {core.RMSNorm: 5, core.QKV: 2, core.Linear: 15, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"qwen3":     {core.RMSNorm: 9, core.QKV: 2, core.GateUpSwiGLU: 2, core.Linear: 15, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"qwen3_moe": {core.RMSNorm: 9, core.QKV: 2, core.GateUpSwiGLU: 1, core.Linear: 13, core.AddRMSNorm: 4, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 1, core.MoEGate: 1, core.MoEExperts: 1, core.LinearCrossEntropy: 1},
	}
	for _, name := range types() {
		t.Run(name, func(t *testing.T) {
			want, listed := tests[name] // a family that is not is only held to what facts must be
			got := map[core.Op]int{}
			paths := map[string]bool{}
			for _, s := range newModel(t, family(name), 1).Sites() {
				got[s.Op]++
				if paths[s.Path] {
					t.Errorf("two sites at %s", s.Path)
				}
				paths[s.Path] = true
				if err := s.Facts.Validate(s.Op); err != nil {
					t.Errorf("%s: %v", s.Path, err)
				}
				if want := facts(name, s); listed && s.Facts != want {
					t.Errorf("%s has %v, want %v", s.Path, s.Facts, want)
				}
			}
			if listed && !maps.Equal(got, want) {
				t.Errorf("sites %v, want %v", got, want)
			}
		})
	}
}

// facts are what a site of a small model of the family must say.
func facts(family string, s core.Site) core.Facts {
	f := core.Facts{DType: core.Float32}
	headDim, rotaryDim, pairing := 6, 6, core.Half
	switch family {
	case "glm4":
		headDim, rotaryDim, pairing = 8, 4, core.Interleaved
	case "glm4_moe", "phi3":
		headDim, rotaryDim = 8, 4
	}
	switch s.Op {
	case core.RMSNorm, core.AddRMSNorm:
		f.WeightDType, f.Dim, f.Cast = core.Float32, 12, core.CastBeforeWeight
		if strings.Contains(s.Path, "self_attn.") {
			f.Dim = headDim
		}
		f.Eps = map[string]float64{"glm4": 1.5625e-7, "glm4_moe": 1e-5, "phi3": 1e-5}[family]
		if f.Eps == 0 {
			f.Eps = 1e-6
		}
	case core.RoPE:
		f.HeadDim, f.RotaryDim, f.Heads, f.KVHeads, f.Pairing = headDim, rotaryDim, 4, 2, pairing
	case core.Attention:
		f.HeadDim, f.Heads, f.KVHeads = headDim, 4, 2
	case core.SwiGLU:
		f.Intermediate, f.Activation, f.Layout = 20, "silu", core.Separate // two shared experts are as wide
		if family == "glm4" || family == "phi3" {
			f.Layout = core.Packed
		}
	case core.GateUpSwiGLU:
		f.WeightDType, f.Dim, f.Intermediate, f.Activation, f.Layout = core.Float32, 12, 20, "silu", core.Separate
		if family == "glm4" || family == "phi3" {
			f.Layout = core.Packed
		}
	case core.QKV:
		f.WeightDType, f.HeadDim, f.Heads, f.KVHeads = core.Float32, headDim, 4, 2
		f.Dim, _, f.Bias = layer(family, "q_proj", headDim)
	case core.Linear:
		f.WeightDType = core.Float32
		f.Dim, f.Out, f.Bias = layer(family, s.Path[strings.LastIndex(s.Path, ".")+1:], headDim)
	case core.LinearCrossEntropy:
		f.WeightDType, f.Dim, f.Vocab = core.Float32, 12, 29
	case core.MoEGate:
		f.Experts, f.TopK, f.Scoring, f.Groups, f.TopGroups, f.Normalize, f.Scale = 4, 2, core.ScoringSoftmax, 1, 1, true, 1
		if family == "glm4_moe" {
			f.Experts, f.Scoring, f.Bias, f.Groups, f.TopGroups, f.Scale = 8, core.ScoringSigmoid, true, 4, 2, 2.5
		}
	case core.MoEExperts:
		f.WeightDType, f.Dim, f.Intermediate, f.Activation, f.Layout = core.Float32, 12, 10, "silu", core.Packed
		f.Experts, f.TopK, f.Routing = 4, 2, core.RoutingNormalized
		if family == "glm4_moe" {
			f.Experts, f.Routing = 8, core.RoutingAny // they sum to the scale
		}
	}
	return f
}

// layer returns the sizes of a linear layer of a small model, and whether it has a bias.
func layer(family, name string, headDim int) (in, out int, bias bool) {
	all := family == "llama"
	switch name {
	case "q_proj", "k_proj", "v_proj":
		heads := map[string]int{"q_proj": 4, "k_proj": 2, "v_proj": 2}[name]
		return 12, heads * headDim, all || family == "glm4" || family == "glm4_moe" || family == "qwen2"
	case "qkv_proj":
		return 12, 8 * headDim, false
	case "o_proj":
		return 4 * headDim, 12, all
	case "gate_up_proj":
		return 12, 40, false
	case "gate_proj", "up_proj":
		return 12, 20, all
	case "down_proj":
		return 20, 12, all
	case "logits":
		return 12, map[string]int{"qwen3_moe": 4, "glm4_moe": 8}[family], false
	case "lm_head":
		return 12, 29, false
	}
	return 0, 0, false
}

func TestASparseStepChoosesTheLayersWithExperts(t *testing.T) {
	m := newModel(t, family("qwen3_moe", with("num_hidden_layers", 6), with("decoder_sparse_step", 2), with("mlp_only_layers", []int{3}), with("norm_topk_prob", false)), 1)
	var sparse []string
	for _, s := range m.Sites() {
		if s.Op == core.MoEExperts {
			sparse = append(sparse, s.Path)
			if s.Facts.Routing != core.RoutingSoftmax {
				t.Errorf("%s: routing %s", s.Path, s.Facts.Routing)
			}
		}
	}
	if want := []string{"layers.1.mlp.experts", "layers.5.mlp.experts"}; !slices.Equal(sparse, want) {
		t.Errorf("experts in %v, want %v", sparse, want)
	}
}

func TestInitIsSeededAndLeavesNormsAtOneAndBiasesAtZero(t *testing.T) {
	a, b, c := newModel(t, family("llama"), 1), newModel(t, family("llama"), 1), newModel(t, family("llama"), 2)
	for i, p := range a.Params() {
		v := p.Tensor.Float32s()
		if !slices.Equal(v, b.Params()[i].Tensor.Float32s()) {
			t.Errorf("%s differs between two models of one seed", p.Name)
		}
		matrix := len(p.Tensor.Shape) > 1
		if matrix == slices.Equal(v, c.Params()[i].Tensor.Float32s()) {
			t.Errorf("%s: does the seed matter? want %v", p.Name, matrix)
		}
		if want := map[bool]float32{true: 0, false: 1}[strings.HasSuffix(p.Name, "bias")]; !matrix && (slices.Min(v) != want || slices.Max(v) != want) {
			t.Errorf("%s is not %v", p.Name, want)
		}
	}
}
