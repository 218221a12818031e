package gguf

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// family is what the format and llama.cpp make of a model_type.
type family struct {
	arch  string
	names map[string]string // of a layer's tensors, where they differ from layerNames
	pairs bool              // llama.cpp rotates neighbouring pairs of q and k where the files have halves
	// what llama.cpp's graph of the family has
	biases, outBias, mlpBias, qkNorm bool
	partial                          bool     // part of a head may rotate
	windows                          bool     // sliding windows, in some layers
	ropes                            []string // kinds of rope_scaling
	experts                          func(m nn.MoEConfig) error
	// split returns the parts of a tensor of a layer that is not one tensor of the file, named without the layer, nil
	// for any other.
	split     func(m *models.Model, path string, shape []int) []part
	keys      func(set func(key string, value any), m *models.Model)
	check     func(m *models.Model) error // what else llama.cpp computes otherwise
	note      string                      // what it computes less exactly
	unadapted []string                    // layers whose adapters it ignores
}

// families by model_type.
var families = map[string]family{
	"llama": {arch: "llama", pairs: true, biases: true, outBias: true, mlpBias: true, ropes: []string{"linear",
		"llama3", "yarn"}},
	"mistral": {arch: "llama", pairs: true, ropes: []string{"linear", "llama3", "yarn"}},
	"qwen2":   {arch: "qwen2", biases: true, ropes: []string{"linear", "yarn"}},
	"qwen3":   {arch: "qwen3", qkNorm: true, ropes: []string{"linear", "yarn"}},
	"qwen3_moe": {arch: "qwen3moe", qkNorm: true, ropes: []string{"linear", "yarn"}, experts: func(m nn.MoEConfig) error {
		if !m.Router.Normalize {
			return unsaid("norm_topk_prob is false, and llama.cpp always divides the weights of a token's experts by their sum")
		}
		return nil
	}},
	"glm4": {arch: "glm4", biases: true, partial: true, names: map[string]string{
		"mlp.gate_up_proj": "ffn_up", "post_self_attn_layernorm": "post_attention_norm",
		"post_mlp_layernorm": "post_ffw_norm"}},
	"glm4_moe": {arch: "glm4moe", biases: true, qkNorm: true, partial: true, experts: anyExperts, keys: glmKeys,
		names: map[string]string{
			"post_attention_layernorm": "post_attention_norm"}},
	"ernie4_5": {arch: "ernie4_5", biases: true, outBias: true, ropes: []string{"linear", "yarn"}, check: ernieCheck},
	"gemma2": {arch: "gemma2", windows: true, names: gemmaNames, keys: gemmaKeys, note: roundedGELU,
		check: func(m *models.Model) error { return gemmaCheck(m, 2, 46, true) }},
	"gemma3_text": {arch: "gemma3", windows: true, qkNorm: true, ropes: []string{"linear"}, names: gemmaNames,
		keys: gemmaKeys, note: roundedGELU, check: func(m *models.Model) error { return gemmaCheck(m, 6, 62, false) }},
	"ernie4_5_moe": {arch: "ernie4_5-moe", ropes: []string{"linear", "yarn"}, check: ernieMoECheck, keys: ernieMoEKeys,
		experts: anyExperts},
	"gpt_oss": {arch: "gpt-oss", biases: true, outBias: true, windows: true, ropes: []string{"linear", "yarn"},
		names: gptOSSNames, split: gptOSSSplit, check: gptOSSCheck, experts: gptOSSExperts, keys: gptOSSKeys},
	"deepseek_v3": {arch: "deepseek2", ropes: []string{"yarn"}, names: latentNames, split: latentSplit,
		check: latentCheck, experts: anyExperts, keys: latentKeys, unadapted: latentUnadapted},
	"granite": {arch: "granite", pairs: true, biases: true, outBias: true, mlpBias: true,
		ropes: []string{"linear", "yarn"}, keys: func(set func(key string, value any), m *models.Model) {
			d := m.Decoder.Config()
			set("embedding_scale", float32(d.Scales.Embedding))
			set("residual_scale", float32(d.Scales.Residual))
			set("attention.scale", float32(d.Attention.Scale))
			set("logit_scale", float32(1/d.Scales.Logits))
		}},
	"mixtral": {arch: "llama", pairs: true, ropes: []string{"linear", "yarn"},
		experts: anyExperts,
		names: map[string]string{"block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.experts.w1": "ffn_gate_exps",
			"block_sparse_moe.experts.w3": "ffn_up_exps", "block_sparse_moe.experts.w2": "ffn_down_exps"}},
	"olmo2": {arch: "olmo2", qkNorm: true, ropes: []string{"linear", "yarn"}, names: map[string]string{
		"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}},
	"smollm3": {arch: "smollm3", pairs: true, ropes: []string{"linear", "yarn"}, check: smolCheck},
	"phi3": {arch: "phi3", partial: true, ropes: []string{"longrope", "su", "yarn"}, names: map[string]string{
		"mlp.gate_up_proj": "ffn_up"}},
}

const roundedGELU = "on a processor, llama.cpp rounds the GELU's argument and value to float16, so that its logits " +
	"differ a little"

var gemmaNames = map[string]string{"post_attention_layernorm": "post_attention_norm",
	"pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}

// layerNames are those of a layer's tensors, without .weight and .bias.
var layerNames = map[string]string{
	"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
	"self_attn.o_proj":   "attn_output",
	"self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
	"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
	"mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
	"mlp.experts.down_proj": "ffn_down_exps", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
	"mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
}

// otherNames are those of the tensors that no layer has.
var otherNames = map[string]string{
	"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
	"lm_head.weight": "output.weight",
}

// unsaid is the error of what a GGUF file cannot say.
func unsaid(format string, args ...any) error {
	return fmt.Errorf("config.json: "+format+"; such a model cannot be exported", args...)
}

// familyOf returns the family of a model, which must be one that llama.cpp computes as tune does.
func familyOf(m *models.Model) (family, error) {
	c := m.Config
	f, ok := families[c.ModelType]
	if !ok {
		return f, unsaid("model_type %q has no form in GGUF here (%s have one)", c.ModelType,
			strings.Join(slices.Sorted(maps.Keys(families)), ", "))
	}
	d := m.Decoder.Config()
	a := d.Attention
	switch rotates := 2 * len(a.Rope.InvFreq); {
	case a.Bias && !f.biases || a.OutBias && !f.outBias:
		return f, unsaid("attention_bias: llama.cpp's %s has no such biases", f.arch)
	case c.MLPBias && !f.mlpBias:
		return f, unsaid("mlp_bias: llama.cpp's %s has no such biases", f.arch)
	case (a.QKNorm || a.QKNormAll) && !f.qkNorm:
		return f, unsaid("llama.cpp's %s has no norm of q and k", f.arch)
	case rotates != a.HeadDim && !f.partial:
		return f, unsaid("partial_rotary_factor: in llama.cpp's %s the whole head rotates", f.arch)
	case slices.Contains([]string{"qwen2", "phi3", "olmo2"}, f.arch) && a.Heads*a.HeadDim != a.Hidden:
		return f, unsaid("head_dim is %d: in llama.cpp's %s it is hidden_size/num_attention_heads", a.HeadDim, f.arch)
	}
	if kind := c.RopeType(); kind != "" && kind != "default" && !slices.Contains(f.ropes, kind) {
		return f, unsaid("rope_scaling %s has not been tried with llama.cpp's %s", kind, f.arch)
	}
	if f.check != nil {
		if err := f.check(m); err != nil {
			return f, err
		}
	}
	if first, _ := dense(m); f.experts != nil && first == d.Layers {
		return f, unsaid("no layer has experts, and llama.cpp's %s wants some", f.arch)
	}
	for i := range d.Layers {
		e, sparse := m.Experts(i)
		switch {
		case sparse && f.experts != nil:
			if err := f.experts(e); err != nil {
				return f, err
			}
		case f.arch == "qwen3moe":
			return f, unsaid("layer %d has no experts (mlp_only_layers, decoder_sparse_step): in llama.cpp's qwen3moe "+
				"every layer has", i)
		}
	}
	return f, nil
}

// ernieCheck refuses biases, which use_bias sets everywhere.
func ernieCheck(m *models.Model) error {
	if m.Decoder.Config().Attention.Bias {
		return unsaid("use_bias: llama.cpp's ernie4_5 has no biases of the MLP")
	}
	return nil
}

// smolCheck wants positions where llama.cpp has them.
func smolCheck(m *models.Model) error {
	const every = 4
	d := m.Decoder.Config()
	for i := range d.Layers {
		if without := d.Rope(i) == nil; without != ((i+1)%every == 0) {
			return unsaid("no_rope_layers: in llama.cpp's smollm3 each fourth layer has no positions, and all others have; "+
				"layer %d is not so", i)
		}
	}
	return nil
}

// gemmaCheck wants a window in each layer but every so many-th, and the scale of scores that llama.cpp takes: by the
// number of layers it knows the 27B models, which have another.
func gemmaCheck(m *models.Model, every, layersOf27B int, capped bool) error {
	d := m.Decoder.Config()
	a := d.Attention
	width := a.HeadDim
	if d.Layers == layersOf27B {
		width = d.Hidden / a.Heads
	}
	switch local := d.Rope; {
	case math.Abs(a.Scale*math.Sqrt(float64(width))-1) > 1e-6:
		return unsaid("query_pre_attn_scalar: in llama.cpp it is %d for such a model", width)
	case capped && (a.Cap == 0 || d.LogitCap == 0):
		return unsaid("attn_logit_softcapping or final_logit_softcapping is null: llama.cpp caps both")
	case !capped && (a.Cap != 0 || d.LogitCap != 0):
		return unsaid("attn_logit_softcapping or final_logit_softcapping is given: llama.cpp's gemma3 has no caps")
	case !d.Tied:
		return unsaid("tie_word_embeddings is false: in llama.cpp the head is the embedding")
	case local != nil && math.Abs(local(0).InvFreq[len(a.Rope.InvFreq)-1]/
		math.Pow(10000, -2*float64(len(a.Rope.InvFreq)-1)/float64(a.HeadDim))-1) > 1e-9:
		return unsaid("rope_local_base_freq: in llama.cpp it is 10000")
	}
	for i := range d.Layers {
		if (d.Window(i) > 0) != ((i+1)%every != 0) {
			return unsaid("layer_types or sliding_window_pattern: in llama.cpp one layer in %d has no window, and all others "+
				"have; layer %d is not so", every, i)
		}
	}
	return nil
}

func gemmaKeys(set func(key string, value any), m *models.Model) {
	d := m.Decoder.Config()
	set("attention.sliding_window", uint32(d.Window(0)))
	if d.LogitCap != 0 {
		set("attn_logit_softcapping", float32(d.Attention.Cap))
		set("final_logit_softcapping", float32(d.LogitCap))
	}
}

// hyper sets the keys of the model's sizes. The context is no longer than a sliding window, which
// llama.cpp's graphs of these families do not have: within it both see the same.
func (f family) hyper(out *file, m *models.Model, positions int) {
	c, d := m.Config, m.Decoder.Config()
	a := d.Attention
	set := func(key string, value any) { out.set(f.arch+"."+key, value) }
	set("context_length", uint32(positions))
	set("embedding_length", uint32(d.Hidden))
	set("block_count", uint32(d.Layers))
	set("feed_forward_length", uint32(c.IntermediateSize))
	set("vocab_size", uint32(d.Vocab))
	set("attention.head_count", uint32(a.Heads))
	heads, key, value := a.KVHeads, a.HeadDim, a.HeadDim
	if l := a.Latent; l != nil { // what keys and values of all heads are made of is those of one
		heads, key, value = 1, l.KVRank+l.Rotary, l.KVRank
	}
	set("attention.head_count_kv", uint32(heads))
	set("attention.key_length", uint32(key))
	set("attention.value_length", uint32(value))
	set("attention.layer_norm_rms_epsilon", float32(d.Eps))
	set("rope.dimension_count", uint32(2*len(a.Rope.InvFreq)))
	if _, e := dense(m); e.Router.Experts > 0 {
		set("expert_count", uint32(e.Router.Experts))
		set("expert_used_count", uint32(e.Router.TopK))
		set("expert_feed_forward_length", uint32(e.Intermediate))
	}
	if f.keys != nil {
		f.keys(set, m)
	}
}

// context returns how many tokens a text may have, and whether a sliding window is the reason.
func (f family) context(m *models.Model, positions int) (int, bool) {
	d := m.Decoder.Config()
	windowed := false
	for i := range d.Layers {
		if d.Window == nil || f.windows {
			break
		}
		if w := d.Window(i); w > 0 && w < positions {
			positions, windowed = w, true
		}
	}
	return positions, windowed
}

// rope sets the keys of the rotary embedding, and adds the tensors that say it.
func (f family) rope(out *file, c *hf.Config, d nn.DecoderConfig) error {
	s := hf.RopeScaling{}
	for _, given := range []*hf.RopeScaling{c.RopeParameters, c.RopeScaling} {
		if given != nil {
			s = *given
		}
	}
	set := func(key string, value any) { out.set(f.arch+".rope."+key, value) }
	base, table := cmp.Or(s.RopeTheta, c.RopeTheta, c.DefaultTheta, 10000), d.Attention.Rope
	set("freq_base", float32(base))
	switch kind := c.RopeType(); {
	case kind == "" || kind == "default":
	case len(s.ShortFactor) > 0:
		set("scaling.original_context_length", uint32(c.OriginalMaxPositionEmbeddings))
		set("scaling.attn_factor", float32(table.Scale))
		out.vector("rope_factors_long.weight", narrow(s.LongFactor))
		out.vector("rope_factors_short.weight", narrow(s.ShortFactor))
	case kind == "llama3": // no key says it: each frequency is divided by a number of a tensor
		factors := make([]float64, len(table.InvFreq))
		for i, f := range table.InvFreq {
			factors[i] = math.Pow(base, -float64(2*i)/float64(2*len(factors))) / f
		}
		out.vector("rope_freqs.weight", narrow(factors))
	case kind == "linear":
		set("scaling.type", "linear")
		set("scaling.factor", float32(s.Factor))
	case kind == "yarn":
		if plain, err := plainYarn(c); err != nil || !slices.Equal(plain, table.InvFreq) {
			return unsaid("rope_scaling has beta_fast %g, beta_slow %g or truncate false: llama.cpp's %s has 32, 1 and true, "+
				"which turn by other angles here; say so in config.json to train and export what it computes",
				cmp.Or(s.BetaFast, 32), cmp.Or(s.BetaSlow, 1), f.arch)
		}
		original := cmp.Or(s.OriginalMaxPositionEmbeddings, c.MaxPositionEmbeddings)
		factor := cmp.Or(s.Factor, float64(c.MaxPositionEmbeddings)/float64(original))
		set("scaling.type", "yarn")
		set("scaling.factor", float32(factor))
		set("scaling.original_context_length", uint32(original))
		by := table.Scale / (0.1*math.Log(factor) + 1)
		if more := latentScale(d.Attention)/table.Scale - 1; d.Attention.Latent != nil && math.Abs(more) > 1e-9 {
			if factor == 1 {
				return unsaid("rope_scaling has attention_factor %g with a factor of 1, which llama.cpp's %s counts in the "+
					"scores, too", table.Scale, f.arch)
			}
			set("scaling.yarn_log_multiplier", float32(more/math.Log(factor)))
			by = table.Scale
		}
		if math.Abs(by-1) > 1e-9 {
			set("scaling.attn_factor", float32(by))
		}
	}
	return nil
}

// plainYarn returns the frequencies that llama.cpp has, whose betas are the defaults, and which rounds the dimensions
// between which it ramps.
func plainYarn(c *hf.Config) ([]float64, error) {
	plain := *c
	for _, given := range []**hf.RopeScaling{&plain.RopeParameters, &plain.RopeScaling} {
		if *given != nil {
			s := **given
			s.BetaFast, s.BetaSlow, s.Truncate = 0, 0, nil
			*given = &s
		}
	}
	table, err := plain.RopeTable()
	if err != nil {
		return nil, err
	}
	return table.InvFreq, nil
}

func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}
