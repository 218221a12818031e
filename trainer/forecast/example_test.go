package forecast_test

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
)

// What a run will take, before it starts.
func ExampleNew() {
	m, err := models.New([]byte(`{"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
		"num_hidden_layers": 1, "num_attention_heads": 2}`), autograd.Heap{})
	if err != nil {
		fmt.Println(err)
		return
	}
	short, err := forecast.New(m, autograd.Heap{}, forecast.Run{Batch: 1, Seq: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	long, err := forecast.New(m, autograd.Heap{}, forecast.Run{Batch: 1, Seq: 64})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(short.Parameters, short.Tokens, long.Tokens, long.Bytes() > short.Bytes())
	// Output: 3632 16 64 true
}
