package parity_test

import (
	"fmt"
	"math"
	"slices"
)

// oracles are the families that no golden recording is there for.
var oracles = map[string]likeness{
	"smollm3": llamaLike(1e-6, smolLM3Attention, denseSiLU),
	"olmo2": {norms: [4]string{"", "post_attention_layernorm", "", "post_feedforward_layernorm"}, eps: 1e-5, embed: one, residual: one, logits: asTheyAre,
		attend: olmo2Attention, feed: denseSiLU},
	"granite": {norms: llamaNorms, eps: 1e-6, embed: field("embedding_multiplier"), residual: field("residual_multiplier"),
		logits: graniteLogits, attend: graniteAttention, feed: denseSiLU},
	"mixtral":      llamaLike(1e-5, mistralAttention, mixtralExperts),
	"ernie4_5_moe": llamaLike(1e-5, ernieAttention, ernieExperts),
	"ernie4_5":     llamaLike(1e-5, ernieAttention, denseSiLU),
}

var llamaNorms = [4]string{"input_layernorm", "", "post_attention_layernorm", ""}

func llamaLike(eps float64, attend func(*oracle, int, [][]float64) [][]float64,
	feed func(*oracle, int, []float64) []float64) likeness {
	return likeness{norms: llamaNorms, eps: eps, embed: one, residual: one, logits: asTheyAre, attend: attend, feed: feed}
}

func one(*oracle) float64 { return 1 }

func asTheyAre(*oracle, []float64) {}

func field(name string) func(*oracle) float64 {
	return func(o *oracle) float64 { return o.number(name, 1) }
}

func denseSiLU(o *oracle, layer int, x []float64) []float64 {
	return o.gated(fmt.Sprintf("model.layers.%d.mlp", layer), x, silu)
}

// projected is attention of heads that q_proj, k_proj and v_proj give; turn changes those of q and k.
func projected(o *oracle, layer int, x [][]float64, s scores, turn func(head []float64, position int)) [][]float64 {
	path := fmt.Sprintf("model.layers.%d.self_attn", layer)
	var q, k, v [][][]float64
	for t, row := range x {
		of := func(name string) [][]float64 { return heads(o.linear(path+name, row), o.count("head_dim", 0)) }
		q, k, v = append(q, of(".q_proj")), append(k, of(".k_proj")), append(v, of(".v_proj"))
		for _, h := range append(q[t], k[t]...) {
			turn(h, t)
		}
	}
	y := attention(q, k, v, s)
	for t := range y {
		y[t] = o.linear(path+".o_proj", y[t])
	}
	return y
}

func (o *oracle) usual() scores { return scores{scale: 1 / math.Sqrt(o.number("head_dim", 0))} }

// halves turns the halves of a whole head.
func (o *oracle) halves(base float64) func([]float64, int) {
	inv := frequencies(base, o.count("head_dim", 0))
	return func(h []float64, t int) { rotate(h, t, inv, false) }
}

// smolLM3Attention: every so many layers there are no positions, but the window.
func smolLM3Attention(o *oracle, layer int, x [][]float64) [][]float64 {
	s := o.usual()
	if (layer+1)%o.count("no_rope_layer_interval", 4) != 0 {
		return projected(o, layer, x, s, o.halves(2e6))
	}
	s.window = o.count("sliding_window", 0)
	return projected(o, layer, x, s, func([]float64, int) {})
}

// olmo2Attention has a norm over all of q and of k.
func olmo2Attention(o *oracle, layer int, x [][]float64) [][]float64 {
	path := fmt.Sprintf("model.layers.%d.self_attn", layer)
	n, turn := o.count("head_dim", 0), o.halves(1e4)
	var q, k, v [][][]float64
	for t, row := range x {
		q = append(q, heads(o.norm(path+".q_norm", o.linear(path+".q_proj", row)), n))
		k = append(k, heads(o.norm(path+".k_norm", o.linear(path+".k_proj", row)), n))
		v = append(v, heads(o.linear(path+".v_proj", row), n))
		for _, h := range append(q[t], k[t]...) {
			turn(h, t)
		}
	}
	y := attention(q, k, v, o.usual())
	for t := range y {
		y[t] = o.linear(path+".o_proj", y[t])
	}
	return y
}

func graniteAttention(o *oracle, layer int, x [][]float64) [][]float64 {
	return projected(o, layer, x, scores{scale: o.number("attention_multiplier", 1)}, o.halves(1e4))
}

func graniteLogits(o *oracle, v []float64) {
	for i := range v {
		v[i] /= o.number("logits_scaling", 1)
	}
}

func mistralAttention(o *oracle, layer int, x [][]float64) [][]float64 {
	s := o.usual()
	s.window = o.count("sliding_window", 0)
	return projected(o, layer, x, s, o.halves(1e6))
}

// mixtralExperts takes the softmax of the chosen alone.
func mixtralExperts(o *oracle, layer int, x []float64) []float64 {
	path := fmt.Sprintf("model.layers.%d.block_sparse_moe", layer)
	logits := o.linear(path+".gate", x)
	chosen := best(logits, o.count("num_experts_per_tok", 2))
	weights := make([]float64, len(chosen))
	for i, e := range chosen {
		weights[i] = logits[e]
	}
	softmax(weights)
	y := make([]float64, len(x))
	for i, e := range chosen {
		for j, v := range o.gated(fmt.Sprintf("%s.experts.%d", path, e), x, silu, "w1", "w3", "w2") {
			y[j] += weights[i] * v
		}
	}
	return y
}

// ernieAttention turns neighbours.
func ernieAttention(o *oracle, layer int, x [][]float64) [][]float64 {
	inv := frequencies(5e5, o.count("head_dim", 0))
	return projected(o, layer, x, o.usual(), func(h []float64, t int) { rotate(h, t, inv, true) })
}

// ernieExperts chooses by the softmax and a bias, weighs by the softmax alone, and has some experts that all tokens share.
func ernieExperts(o *oracle, layer int, x []float64) []float64 {
	path := fmt.Sprintf("model.layers.%d.mlp", layer)
	if layer < o.count("moe_layer_start_index", 1) {
		return denseSiLU(o, layer, x)
	}
	p := o.linear(path+".gate", x)
	softmax(p)
	choosing := slices.Clone(p)
	for e, b := range o.tensor(path + ".moe_statics.e_score_correction_bias") {
		choosing[e] += b
	}
	y, sum := o.gated(path+".shared_experts", x, silu), 0.0
	chosen := best(choosing, o.count("moe_k", 6))
	for _, e := range chosen {
		sum += p[e]
	}
	for _, e := range chosen {
		for j, v := range o.gated(fmt.Sprintf("%s.experts.%d", path, e), x, silu) {
			y[j] += p[e] / sum * v
		}
	}
	return y
}
