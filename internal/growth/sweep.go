package main

import (
	"cmp"
	"fmt"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/bench"
)

// sweep is a size that grows while all others stay.
type sweep struct {
	name  string // of the chart's file
	title string
	axis  string // what is counted
	sizes []int

	config     string // a config.json in which %d is the size
	batch, seq int    // a seq of 0 is the size
}

// llama is the model of two sweeps: config.json with the layers and the positions left open.
const llama = `{"model_type": "llama", "vocab_size": 2048, "hidden_size": 256,
	"intermediate_size": 704, "num_attention_heads": 8,
	"num_key_value_heads": 8, "head_dim": 32, "num_hidden_layers": %s, "max_position_embeddings": %s}`

// experts is the model of the third, with the experts left open.
const experts = `{"model_type": "qwen3_moe", "vocab_size": 2048, "hidden_size": 256,
	"intermediate_size": 704, "num_attention_heads": 8,
	"num_key_value_heads": 8, "head_dim": 32, "num_hidden_layers": 2, "max_position_embeddings": 128,
	"num_experts": %d, "num_experts_per_tok": 4, "moe_intermediate_size": 128, "norm_topk_prob": true}`

// sweeps returns all of them, each with its smallest sizes, at most so many; 0 is all. The
// models are small, so that the largest step takes less than a second on two cores, and
// the sizes double, so that a slope takes few of them.
func sweeps(points int) []sweep {
	all := []sweep{
		{name: "seq", title: "Sequence length: llama, hidden 256, 4 layers, batch 1", axis: "tokens of the row",
			sizes: []int{64, 128, 256, 512, 1024, 2048}, config: fmt.Sprintf(llama, "4", "%d"), batch: 1},
		{name: "layers", title: "Layers: llama, hidden 256, batch 4 x 128", axis: "layers",
			sizes: []int{2, 4, 8, 16}, config: fmt.Sprintf(llama, "%d", "128"), batch: 4, seq: 128},
		{name: "experts", title: "Experts: qwen3_moe, top 4, hidden 256, 2 layers, batch 4 x 128",
			axis:  "experts of a layer",
			sizes: []int{8, 16, 32, 64}, config: experts, batch: 4, seq: 128},
	}
	for i, w := range all {
		if points > 0 {
			all[i].sizes = w.sizes[:min(points, len(w.sizes))]
		}
	}
	return all
}

// options say what bench measures at size n.
func (w sweep) options(n int) bench.Options {
	run := trainer.Config{Batch: w.batch, Seq: cmp.Or(w.seq, n), Seed: 1}
	return bench.Options{Config: run, ModelJSON: fmt.Appendf(nil, w.config, n)}
}
