package generate_test

import (
	"context"
	"fmt"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/models"
)

// The likeliest token, and one drawn from the two likeliest.
func ExampleSampler() {
	logits := []float32{0.1, 3, 2.9, -1}
	fmt.Println(generate.NewSampler(generate.Sampling{}).Next(logits, nil))
	drawn := generate.NewSampler(generate.Sampling{Temperature: 1, TopK: 2, TopP: 1, Seed: 1}).Next(logits, nil)
	fmt.Println(drawn == 1 || drawn == 2)
	// Output:
	// 1
	// true
}

// A session reads tokens and gives the logits of the next one; what it has read stays.
func ExampleSession() {
	m, err := models.New([]byte(`{"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
		"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64}`), autograd.Heap{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Init(1)
	s := generate.NewSession(m, autograd.Heap{}, 0)
	defer s.Close()
	logits, err := s.Feed(context.Background(), []int32{5, 6, 7})
	fmt.Println(len(logits), s.Tokens(), s.Limit(), err)
	// Output: 32 [5 6 7] 64 <nil>
}
