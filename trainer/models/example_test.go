package models_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

const twoLayers = `{"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
	"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 32}`

// The model that a config.json describes, with random weights; Load reads a folder.
func ExampleNew() {
	m, err := models.New([]byte(twoLayers), autograd.Heap{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Init(1)
	fmt.Println(m.Elems(), "parameters")
	for _, s := range m.Sites()[:5] {
		fmt.Println(s.Path, s.Op)
	}
	// Output:
	// 6224 parameters
	// layers.0.input_layernorm rms_norm
	// layers.0.self_attn.qkv qkv
	// layers.0.self_attn.q_proj linear
	// layers.0.self_attn.k_proj linear
	// layers.0.self_attn.v_proj linear
}

// Auto knows how to measure these models, as tune does.
func ExampleModel_Measure() {
	m, err := models.New([]byte(twoLayers), autograd.Heap{})
	if err != nil {
		fmt.Println(err)
		return
	}
	reg := core.NewRegistry()
	if err := reg.Register(reference.Kernel(core.SwiGLU)); err != nil {
		fmt.Println(err)
		return
	}
	report, err := core.ApplyDefaultKernels(context.Background(), m, reg, "auto")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range report.Actions {
		if a.Measured != nil {
			fmt.Println(a.Site.Path, "was measured on", a.Measured.Tokens, "tokens")
		}
	}
	// Output:
	// layers.0.mlp was measured on 128 tokens
	// layers.1.mlp was measured on 128 tokens
}

// The model types that can be built.
func ExampleFamilies() {
	for _, f := range models.Families() {
		if f.Type == "llama" || f.Type == "qwen3_moe" {
			fmt.Println(f.Type)
		}
	}
	// Output:
	// llama
	// qwen3_moe
}
