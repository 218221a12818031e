package gguf_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/gguf"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// adapter writes an adapter of random numbers for the model of a folder, and returns its folder.
func adapter(t *testing.T, dir string, c lora.Config) string {
	t.Helper()
	m, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: c, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, p := range m.Trainable() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] = float32(rng.NormFloat64()) / 4
		}
	}
	saved, err := m.Saved()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, saved.ConfigFile), saved.Config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(to, saved.WeightsFile), saved.Weights, nil); err != nil {
		t.Fatal(err)
	}
	return to
}

func exportAdapter(t *testing.T, dir, adapter string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "adapter.gguf")
	o := gguf.Options{Model: dir, Out: out}
	if _, err := gguf.ExportAdapter(t.Context(), o, adapter, autograd.Heap{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLlamaCppComputesBaseAndAdapter compares with tune's logits of the model with the adapter.
func TestLlamaCppComputesBaseAndAdapter(t *testing.T) {
	l := start(t)
	for _, tt := range []struct {
		name, family string
		change       map[string]any
		lora         lora.Config
	}{
		{"llama, every layer", "llama", nil, lora.Config{Rank: 4}},
		{"llama, rslora", "llama", nil, lora.Config{Rank: 4, RSLoRA: true, Alpha: 3}},
		{"qwen3", "qwen3", nil, lora.Config{Rank: 2, Alpha: 7, Targets: []string{"q_proj", "down_proj"}}},
		{"qwen2", "qwen2", map[string]any{"hidden_size": 24, "use_sliding_window": false}, lora.Config{Rank: 3}},
		{"glm4", "glm4", nil, lora.Config{Rank: 4}},
		{"phi3", "phi3", map[string]any{"hidden_size": 32, "rope_scaling": nil, "sliding_window": nil},
			lora.Config{Rank: 4}},
		{"glm4_moe, attention", "glm4_moe", map[string]any{"n_group": 1, "topk_group": 1},
			lora.Config{Rank: 4, Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj"}}},
		{"mixtral, attention", "mixtral", map[string]any{"sliding_window": nil},
			lora.Config{Rank: 4, Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj"}}},
		{"qwen3_moe, attention", "qwen3_moe", map[string]any{"mlp_only_layers": []int{}},
			lora.Config{Rank: 4, Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj"}}},
		{"mistral", "mistral", map[string]any{"sliding_window": nil}, lora.Config{Rank: 4}},
		{"olmo2", "olmo2", map[string]any{"attention_bias": false, "hidden_size": 24}, lora.Config{Rank: 4}},
		{"granite", "granite", nil, lora.Config{Rank: 4}},
		{"ernie4_5", "ernie4_5", map[string]any{"use_bias": false}, lora.Config{Rank: 4}},
		{"ernie4_5_moe, attention", "ernie4_5_moe", nil,
			lora.Config{Rank: 4, Targets: []string{"q_proj", "k_proj", "v_proj", "o_proj"}}},
		{"gpt_oss", "gpt_oss", map[string]any{"swiglu_limit": 7}, lora.Config{Rank: 4}},
		{"deepseek_v3, what llama.cpp adapts", "deepseek_v3", latent(), lora.Config{Rank: 4, Targets: []string{"o_proj"}}},
		{"smollm3", "smollm3", map[string]any{"num_hidden_layers": 4, "no_rope_layer_interval": 4,
			"use_sliding_window": false, "attention_bias": false, "mlp_bias": false}, lora.Config{Rank: 4}},
		{"gemma2", "gemma2", gemma("sliding_window", 4), lora.Config{Rank: 4}},
		{"gemma3_text", "gemma3_text", gemma("sliding_window", 4), lora.Config{Rank: 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := small(t, tt.family, tt.change)
			folder := adapter(t, dir, tt.lora)
			tokens := ids(29, 24)
			a := l.ask(t, map[string]any{"file": export(t, dir, "f32"), "adapter": exportAdapter(t, dir, folder),
				"ids": tokens})
			equal(t, a.Logits, logits(t, dir, models.LoadOptions{Frozen: true, LoRA: lora.Config{Adapter: folder}}, tokens),
				2e-5)
		})
	}
}

// TestAnAdaptersFileHasItsMatrices needs no llama.cpp: A as it is, and the rows of B where the weight's are.
func TestAnAdaptersFileHasItsMatrices(t *testing.T) {
	dir := small(t, "llama", nil)
	folder := adapter(t, dir, lora.Config{Rank: 4, Alpha: 6, Targets: []string{"q_proj"}})
	f := readFile(t, exportAdapter(t, dir, folder))
	if f.keys["adapter.lora.alpha"] != float32(6) || f.keys["general.type"] != "adapter" || len(f.tensors) != 4 {
		t.Errorf("alpha %v, type %v, %d tensors", f.keys["adapter.lora.alpha"], f.keys["general.type"], len(f.tensors))
	}
	weights, err := checkpoint.Open(filepath.Join(folder, lora.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	for end, permuted := range map[string]bool{"A": false, "B": true} {
		want, err := weights.Tensor("base_model.model.model.layers.1.self_attn.q_proj.lora_" + end + ".weight")
		if err != nil {
			t.Fatal(err)
		}
		got, cols := f.tensors["blk.1.attn_q.weight.lora_"+strings.ToLower(end)], want.Shape[1]
		for row := range want.Shape[0] {
			from := row
			if permuted {
				from = row/6*6 + []int{0, 3, 1, 4, 2, 5}[row%6]
			}
			if !slices.Equal(got.float32s()[row*cols:(row+1)*cols], want.Float32s()[from*cols:(from+1)*cols]) {
				t.Errorf("row %d of %s is not row %d", row, end, from)
			}
		}
	}
}

func TestAdaptersThatTheFormatHasNoPlaceForAreRefused(t *testing.T) {
	dir := small(t, "qwen3_moe", map[string]any{"mlp_only_layers": []int{}})
	folder := adapter(t, dir, lora.Config{Rank: 2})
	out := filepath.Join(t.TempDir(), "x.gguf")
	_, err := gguf.ExportAdapter(t.Context(), gguf.Options{Model: dir, Out: out}, folder, autograd.Heap{})
	if err == nil || !strings.Contains(err.Error(), "of a single expert") || !strings.Contains(err.Error(),
		"tune merge") {
		t.Errorf("error %v", err)
	}
	for _, target := range []string{"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"} {
		dir := small(t, "deepseek_v3", latent())
		ignored := adapter(t, dir, lora.Config{Rank: 2, Targets: []string{target}})
		_, err = gguf.ExportAdapter(t.Context(), gguf.Options{Model: dir, Out: out}, ignored, autograd.Heap{})
		if err == nil || !strings.Contains(err.Error(), target) || !strings.Contains(err.Error(), "ignores") {
			t.Errorf("%s: error %v", target, err)
		}
	}
	_, err = gguf.ExportAdapter(t.Context(), gguf.Options{Model: dir, Out: out, Type: "q8_0"}, folder, autograd.Heap{})
	if err == nil || !strings.Contains(err.Error(), "an adapter is f32 or f16") {
		t.Errorf("error %v", err)
	}
}

// TestAnAdapterHasOneAlpha: alpha_pattern may give all modules the same, but not each its own.
func TestAnAdapterHasOneAlpha(t *testing.T) {
	dir := small(t, "llama", nil)
	for pattern, want := range map[string]float32{`{}`: 6, `{"q_proj": 3, ".*": 3}`: 3, `{"k_proj": 3}`: 0} {
		folder := adapter(t, dir, lora.Config{Rank: 4, Alpha: 6, Targets: []string{"q_proj", "k_proj"}})
		path := filepath.Join(folder, lora.ConfigFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`"alpha_pattern": {}`), []byte(`"alpha_pattern": `+pattern), 1)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if want > 0 {
			if f := readFile(t, exportAdapter(t, dir, folder)); f.keys["adapter.lora.alpha"] != want {
				t.Errorf("%s: alpha %v, want %v", pattern, f.keys["adapter.lora.alpha"], want)
			}
			continue
		}
		out := filepath.Join(t.TempDir(), "x.gguf")
		_, err = gguf.ExportAdapter(t.Context(), gguf.Options{Model: dir, Out: out}, folder, autograd.Heap{})
		if err == nil || !strings.Contains(err.Error(), "different scales, of which GGUF has one; merge it with tune") {
			t.Errorf("%s: error %v", pattern, err)
		}
	}
}
