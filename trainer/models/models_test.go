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

// fields of a small model of each family; qwen3_moe has a dense layer and a sparse one.
func family(name string, change ...func(map[string]any)) []byte {
	c := map[string]any{"model_type": name, "vocab_size": 29, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64, "initializer_range": 0.3}
	switch name {
	case "llama":
		c["attention_bias"], c["mlp_bias"] = true, true
	case "qwen3":
		c["tie_word_embeddings"] = true
	case "qwen3_moe":
		c["num_experts"], c["num_experts_per_tok"], c["moe_intermediate_size"] = 4, 2, 10
		c["norm_topk_prob"], c["mlp_only_layers"] = true, []int{0}
	}
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

func TestConfigurationErrorsNameTheField(t *testing.T) {
	tests := []struct {
		name   string
		config []byte
		want   string
	}{
		{"not JSON", []byte("{"), "config.json: unexpected end"},
		{"text after the end", []byte(`{"model_type": "llama"} {}`), "config.json: invalid character"},
		{"no type", family("llama", with("model_type", nil)), `model_type "" is not supported; supported: llama, qwen3, qwen3_moe`},
		{"unknown type", family("mamba"), `model_type "mamba" is not supported; supported: llama, qwen3, qwen3_moe`},
		{"text for a number", family("llama", with("hidden_size", "big")), "field hidden_size: a string does not fit"},
		{"text for a number in a sparse model", family("qwen3_moe", with("num_experts", "many")), "field num_experts: a string does not fit"},
		{"text for a shared number in a sparse model", family("qwen3_moe", with("vocab_size", "all")), "field vocab_size: a string does not fit"},
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
		{"window", family("qwen3", with("use_sliding_window", true)), "use_sliding_window"},
		{"tensor parallelism", family("llama", with("pretraining_tp", 2)), "pretraining_tp 2"},
		{"quantized", family("llama", with("quantization_config", map[string]any{"bits": 4})), "quantization_config"},
		{"padding outside", family("llama", with("pad_token_id", 29)), "pad_token_id is outside"},
		{"rope", family("llama", with("rope_scaling", map[string]any{"rope_type": "dynamic", "factor": 2})), `rope_type "dynamic"`},
		{"more experts a token than experts", family("qwen3_moe", with("num_experts_per_tok", 5)), "num_experts_per_tok (5) must be between 1 and num_experts (4)"},
		{"no experts", family("qwen3_moe", with("num_experts", 0)), "num_experts (0)"},
		{"no width of experts", family("qwen3_moe", with("moe_intermediate_size", 0)), "moe_intermediate_size is 0"},
		{"no sparse step", family("qwen3_moe", with("decoder_sparse_step", -1)), "decoder_sparse_step is -1"},
		{"auxiliary loss", family("qwen3_moe", with("output_router_logits", true)), "output_router_logits"},
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
		"llama":     {core.RMSNorm: 5, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"qwen3":     {core.RMSNorm: 9, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 2, core.LinearCrossEntropy: 1},
		"qwen3_moe": {core.RMSNorm: 9, core.RoPE: 2, core.Attention: 2, core.SwiGLU: 1, core.MoEExperts: 1, core.LinearCrossEntropy: 1},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
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
				switch s.Op {
				case core.RMSNorm:
					if head := strings.Contains(s.Path, "self_attn"); s.Facts.Dim != map[bool]int{true: 6, false: 12}[head] {
						t.Errorf("%s has %v", s.Path, s.Facts)
					}
				case core.RoPE:
					if f := s.Facts; f.Pairing != core.Half || f.RotaryDim != 6 || f.HeadDim != 6 || f.Heads != 4 || f.KVHeads != 2 {
						t.Errorf("%s has %v", s.Path, f)
					}
				case core.Attention:
					if f := s.Facts; f.HeadDim != 6 || f.Heads != 4 || f.KVHeads != 2 {
						t.Errorf("%s has %v", s.Path, f)
					}
				case core.SwiGLU:
					if s.Facts.Intermediate != 20 || s.Facts.Layout != core.Separate {
						t.Errorf("%s has %v", s.Path, s.Facts)
					}
				case core.LinearCrossEntropy:
					if f := s.Facts; f.Dim != 12 || f.Vocab != newModel(t, family(name), 1).Vocab() || s.Path != "loss" {
						t.Errorf("%s has %v", s.Path, f)
					}
				case core.MoEExperts:
					if f := s.Facts; f.Experts != 4 || f.TopK != 2 || f.Intermediate != 10 || f.Routing != core.RoutingNormalized || s.Path != "layers.1.mlp.experts" {
						t.Errorf("%s has %v", s.Path, f)
					}
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("sites %v, want %v", got, want)
			}
		})
	}
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
