package parity_test

import (
	"fmt"
	"math"
	"slices"
)

// oracles are the families that no golden recording is there for, with the biases that their samples ask for.
var oracles = map[string]likeness{
	"smollm3": withBiases(llamaLike(1e-6, smolLM3Attention, denseSiLU), everywhere...),
	"olmo2": withBiases(likeness{norms: [4]string{"", "post_attention_layernorm", "", "post_feedforward_layernorm"},
		eps: 1e-5, embed: one, residual: one, logits: asTheyAre, attend: olmo2Attention, feed: denseSiLU},
		aroundAttention...),
	"granite": withBiases(likeness{norms: llamaNorms, eps: 1e-6, embed: field("embedding_multiplier"),
		residual: field("residual_multiplier"), logits: graniteLogits, attend: graniteAttention, feed: denseSiLU},
		everywhere...),
	"mistral":     llamaLike(1e-6, mistralAttention(1e4), denseSiLU),
	"mixtral":     llamaLike(1e-5, mistralAttention(1e6), mixtralExperts),
	"gemma2":      withBiases(gemmaLike(gemma2Attention), aroundAttention...),
	"gemma3_text": gemmaLike(gemma3Attention),
	"gpt_oss":     withBiases(llamaLike(1e-5, gptOSSAttention, gptOSSExperts), append(aroundAttention, "router")...),
	"deepseek_v3": withBiases(llamaLike(1e-6, deepseekAttention, deepseekExperts),
		"q_a_proj", "kv_a_proj_with_mqa", "o_proj"),
	"ernie4_5_moe": llamaLike(1e-5, ernieAttention, ernieExperts),
	"ernie4_5":     withBiases(llamaLike(1e-5, ernieAttention, denseSiLU), everywhere...),
}

// The layers that have a bias with attention_bias, and with mlp_bias besides.
var (
	aroundAttention = []string{"q_proj", "k_proj", "v_proj", "o_proj"}
	everywhere      = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
)

var llamaNorms = [4]string{"input_layernorm", "", "post_attention_layernorm", ""}

func llamaLike(eps float64,
	attend func(*oracle, int, [][]float64) [][]float64,
	feed func(*oracle, int, []float64) []float64) likeness {
	return likeness{norms: llamaNorms, eps: eps, embed: one, residual: one, logits: asTheyAre, attend: attend, feed: feed}
}

func withBiases(l likeness, layers ...string) likeness {
	l.biased = layers
	return l
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

func mistralAttention(base float64) func(*oracle, int, [][]float64) [][]float64 {
	return func(o *oracle, layer int, x [][]float64) [][]float64 {
		s := o.usual()
		s.window = o.count("sliding_window", 0)
		return projected(o, layer, x, s, o.halves(base))
	}
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

// ernieExperts chooses by the softmax and a bias, weighs by the softmax alone, and has experts that all tokens share.
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

func gemmaLike(attend func(*oracle, int, [][]float64) [][]float64) likeness {
	return likeness{norms: [4]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
		"post_feedforward_layernorm"},
		offset: 1, eps: 1e-6, residual: one, attend: attend,
		embed: func(o *oracle) float64 { return math.Sqrt(o.number("hidden_size", 0)) },
		logits: func(o *oracle, v []float64) {
			if most := o.number("final_logit_softcapping", 0); most > 0 {
				for i := range v {
					v[i] = most * math.Tanh(v[i]/most)
				}
			}
		},
		feed: func(o *oracle, layer int, x []float64) []float64 {
			return o.gated(fmt.Sprintf("model.layers.%d.mlp", layer), x, func(v float64) float64 {
				return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
			})
		}}
}

func (o *oracle) gemmaScores(layer, every int) scores {
	s := scores{scale: 1 / math.Sqrt(o.number("query_pre_attn_scalar", 0)), cap: o.number("attn_logit_softcapping", 0)}
	if (layer+1)%every != 0 {
		s.window = o.count("sliding_window", 0)
	}
	return s
}

func gemma2Attention(o *oracle, layer int, x [][]float64) [][]float64 {
	return projected(o, layer, x, o.gemmaScores(layer, 2), o.halves(1e4))
}

// gemma3Attention has norms of heads; the layers with a window have a base of their own, and the others are stretched.
func gemma3Attention(o *oracle, layer int, x [][]float64) [][]float64 {
	path := fmt.Sprintf("model.layers.%d.self_attn", layer)
	s, inv := o.gemmaScores(layer, o.count("sliding_window_pattern", 6)), frequencies(1e4, o.count("head_dim", 0))
	if s.window == 0 {
		inv = frequencies(1e6, o.count("head_dim", 0))
		for i := range inv {
			inv[i] /= 8
		}
	}
	var q, k, v [][][]float64
	for t, row := range x {
		of := func(name string) (all [][]float64) {
			for _, h := range heads(o.linear(path+"."+name+"_proj", row), o.count("head_dim", 0)) {
				if name != "v" {
					h = o.norm(path+"."+name+"_norm", h)
					rotate(h, t, inv, false)
				}
				all = append(all, h)
			}
			return all
		}
		q, k, v = append(q, of("q")), append(k, of("k")), append(v, of("v"))
	}
	y := attention(q, k, v, s)
	for t := range y {
		y[t] = o.linear(path+".o_proj", y[t])
	}
	return y
}

// gptOSSAttention has sinks, a window in even layers, and a stretched rope: between the pairs that turn 32 times and
// once within the original length, what is stretched grows in proportion to the pair's number.
func gptOSSAttention(o *oracle, layer int, x [][]float64) [][]float64 {
	s := o.usual()
	s.sinks = o.tensor(fmt.Sprintf("model.layers.%d.self_attn.sinks", layer))
	if layer%2 == 0 {
		s.window = o.count("sliding_window", 0)
	}
	const base, factor = 150000.0, 4.0
	original := o.number("max_position_embeddings", 0) // the file says nothing else
	n := o.count("head_dim", 0)
	pair := func(turns float64) float64 {
		return float64(n) * math.Log(original/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	low, high := max(pair(32), 0), min(pair(1), float64(n-1))
	inv := frequencies(base, n)
	for i := range inv {
		stretched := min(max((float64(i)-low)/(high-low), 0), 1)
		inv[i] = inv[i]/factor*stretched + inv[i]*(1-stretched)
	}
	mscale := 0.1*math.Log(factor) + 1
	return projected(o, layer, x, s, func(h []float64, t int) {
		rotate(h, t, inv, false)
		for i := range h {
			h[i] *= mscale
		}
	})
}

// gptOSSExperts have one tensor for all of them, whose rows are inputs and whose columns are gate and up in turns.
func gptOSSExperts(o *oracle, layer int, x []float64) []float64 {
	path := fmt.Sprintf("model.layers.%d.mlp.", layer)
	logits, d, n := o.linear(path+"router", x), len(x), o.count("intermediate_size", 0)
	chosen := best(logits, o.count("num_experts_per_tok", 4))
	weights := make([]float64, len(chosen))
	for i, e := range chosen {
		weights[i] = logits[e]
	}
	softmax(weights)
	// from multiplies a row by the matrix of expert e and adds its bias.
	from := func(name string, e int, x []float64, out int) []float64 {
		w, y := o.tensor(path + "experts." + name)[e*len(x)*out:], make([]float64, out)
		copy(y, o.tensor(path + "experts." + name + "_bias")[e*out:][:out])
		for i, v := range x {
			for j := range y {
				y[j] += v * w[i*out+j]
			}
		}
		return y
	}
	y, limit := make([]float64, d), o.number("swiglu_limit", 7)
	for i, e := range chosen {
		both, hidden := from("gate_up_proj", e, x, 2*n), make([]float64, n)
		for j := range hidden {
			gate, up := min(both[2*j], limit), max(min(both[2*j+1], limit), -limit)
			hidden[j] = (up + 1) * gate / (1 + math.Exp(-1.702*gate))
		}
		for j, v := range from("down_proj", e, hidden, d) {
			y[j] += weights[i] * v
		}
	}
	return y
}

// deepseekAttention: q and kv go through few numbers and a norm; the last elements of a head of q turn, as those of k,
// which all heads share.
func deepseekAttention(o *oracle, layer int, x [][]float64) [][]float64 {
	path := fmt.Sprintf("model.layers.%d.self_attn.", layer)
	rank, plain, rotary := o.count("kv_lora_rank", 0), o.count("qk_nope_head_dim", 0), o.count("qk_rope_head_dim", 0)
	original := o.number("max_position_embeddings", 0)
	queries := func(row []float64) []float64 {
		return o.linear(path+"q_b_proj", o.norm(path+"q_a_layernorm", o.linear(path+"q_a_proj", row)))
	}
	const factor, all = 4, 0.7
	pair := func(turns float64) float64 {
		return float64(rotary) * math.Log(original/(turns*2*math.Pi)) / (2 * math.Log(10000))
	}
	low, high := max(math.Floor(pair(32)), 0), min(math.Ceil(pair(1)), float64(rotary-1))
	inv := frequencies(1e4, rotary)
	for i := range inv {
		stretched := min(max((float64(i)-low)/(high-low), 0), 1)
		inv[i] = inv[i]/factor*stretched + inv[i]*(1-stretched)
	}
	longer := func(by float64) float64 { return 0.1*by*math.Log(factor) + 1 }
	turned := func(h []float64, t int) []float64 {
		h = slices.Clone(h)
		rotate(h, t, inv, true)
		for i := range h {
			h[i] *= longer(1) / longer(all)
		}
		return h
	}
	var q, k, v [][][]float64
	for t, row := range x {
		down := o.linear(path+"kv_a_proj_with_mqa", row)
		up := heads(o.linear(path+"kv_b_proj", o.norm(path+"kv_a_layernorm", down[:rank])), plain+o.count("v_head_dim", 0))
		var qt, kt, vt [][]float64
		for i, h := range heads(queries(row), plain+rotary) {
			qt = append(qt, append(slices.Clone(h[:plain]), turned(h[plain:], t)...))
			kt = append(kt, append(slices.Clone(up[i][:plain]), turned(down[rank:], t)...))
			vt = append(vt, up[i][plain:])
		}
		q, k, v = append(q, qt), append(k, kt), append(v, vt)
	}
	y := attention(q, k, v, scores{scale: longer(all) * longer(all) / math.Sqrt(float64(plain+rotary))})
	for t := range y {
		y[t] = o.linear(path+"o_proj", y[t])
	}
	return y
}

// deepseekExperts ranks groups of experts by their two best, and takes the best of the best groups.
func deepseekExperts(o *oracle, layer int, x []float64) []float64 {
	path := fmt.Sprintf("model.layers.%d.mlp", layer)
	if layer < o.count("first_k_dense_replace", 3) {
		return denseSiLU(o, layer, x)
	}
	p := o.linear(path+".gate", x)
	for e := range p {
		p[e] = 1 / (1 + math.Exp(-p[e]))
	}
	choosing := slices.Clone(p)
	for e, b := range o.tensor(path + ".gate.e_score_correction_bias") {
		choosing[e] += b
	}
	groups := heads(choosing, len(p)/o.count("n_group", 1))
	ranks := make([]float64, len(groups))
	for i, g := range groups {
		for _, e := range best(g, 2) {
			ranks[i] += g[e]
		}
	}
	kept := best(ranks, o.count("topk_group", 1))
	for i, g := range groups {
		if !slices.Contains(kept, i) {
			clear(g)
		}
	}
	chosen, sum := best(choosing, o.count("num_experts_per_tok", 8)), 0.0
	for _, e := range chosen {
		sum += p[e]
	}
	y := o.gated(path+".shared_experts", x, silu)
	for _, e := range chosen {
		for j, v := range o.gated(fmt.Sprintf("%s.experts.%d", path, e), x, silu) {
			y[j] += o.number("routed_scaling_factor", 2.5) * p[e] / sum * v
		}
	}
	return y
}
