package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/bench"
)

// sweep is a size that grows while all others stay.
type sweep struct {
	name  string // as -only takes it, and of the chart's file
	title string
	axis  string // what is counted
	sizes []int

	config     string // a config.json in which %d is the size
	batch, seq int    // a seq of 0 is the size
}

// sweeps returns all of them. The models are small, so that the largest step takes about
// a second on two cores, and the sizes double, so that a slope takes few of them.
func sweeps() []sweep {
	return []sweep{
		{name: "seq", title: "Sequence length: llama, hidden 256, 4 layers, batch 1", axis: "tokens of the row",
			sizes: []int{64, 128, 256, 512, 1024, 2048}, batch: 1,
			config: `{"model_type": "llama", "vocab_size": 2048, "hidden_size": 256, "intermediate_size": 704,
				"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32,
				"max_position_embeddings": %d}`},
		{name: "layers", title: "Layers: llama, hidden 256, batch 4 x 128", axis: "layers",
			sizes: []int{2, 4, 8, 16}, batch: 4, seq: 128,
			config: `{"model_type": "llama", "vocab_size": 2048, "hidden_size": 256, "intermediate_size": 704,
				"num_hidden_layers": %d, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32,
				"max_position_embeddings": 128}`},
		{name: "experts", title: "Experts: qwen3_moe, top 4, hidden 256, 2 layers, batch 4 x 128", axis: "experts of a layer",
			sizes: []int{8, 16, 32, 64}, batch: 4, seq: 128,
			config: `{"model_type": "qwen3_moe", "vocab_size": 2048, "hidden_size": 256, "intermediate_size": 704,
				"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32,
				"num_experts": %d, "num_experts_per_tok": 4, "moe_intermediate_size": 128, "norm_topk_prob": true,
				"max_position_embeddings": 128}`},
	}
}

// choose returns the sweep of that name, or all, with at most so many sizes; 0 is all.
func choose(only string, points int) ([]sweep, error) {
	var chosen []sweep
	var names []string
	for _, w := range sweeps() {
		names = append(names, w.name)
		if only != "" && only != w.name {
			continue
		}
		if points > 0 {
			w.sizes = w.sizes[:min(points, len(w.sizes))]
		}
		chosen = append(chosen, w)
	}
	if !slices.Contains(names, only) && only != "" {
		return nil, fmt.Errorf("-only: there is no sweep %q; there are %s", only, strings.Join(names, ", "))
	}
	return chosen, nil
}

// options say what bench measures at size n.
func (w sweep) options(n int) bench.Options {
	o := bench.Options{Config: fmt.Appendf(nil, w.config, n), Batch: w.batch, Seq: w.seq, Seed: 1}
	if o.Seq == 0 {
		o.Seq = n
	}
	return o
}
