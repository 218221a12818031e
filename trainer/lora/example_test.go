package lora_test

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// A model that is loaded with adapters trains them alone.
func ExampleConfig() {
	m, err := models.NewWith([]byte(`{"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
		"num_hidden_layers": 1, "num_attention_heads": 2}`), autograd.Heap{},
		models.LoadOptions{LoRA: lora.Config{Rank: 2, Targets: []string{"q_proj", "v_proj"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range m.Trainable() {
		fmt.Println(p.Name, p.Tensor.Shape)
	}
	// Output:
	// model.layers.0.self_attn.q_proj.lora_A.weight [2 16]
	// model.layers.0.self_attn.q_proj.lora_B.weight [16 2]
	// model.layers.0.self_attn.v_proj.lora_A.weight [2 16]
	// model.layers.0.self_attn.v_proj.lora_B.weight [16 2]
}
