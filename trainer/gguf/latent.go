package gguf

import (
	"math"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

var latentNames = map[string]string{"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
	"self_attn.q_b_proj": "attn_q_b", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
	"self_attn.kv_a_layernorm": "attn_kv_a_norm"}

// latentUnadapted are the layers that llama.cpp multiplies by the matrix of the file alone.
var latentUnadapted = []string{"q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "lm_head"}

// latentCheck wants the norms, the layers and the scale of scores that llama.cpp's deepseek2 has.
func latentCheck(m *models.Model) error {
	const eps = 1e-6
	d, kind := m.Decoder.Config(), m.Config.RopeType()
	l, scale := d.Attention.Latent, latentScale(d.Attention)
	switch {
	case d.Eps != eps:
		return unsaid("rms_norm_eps is %g: the norms of latent attention have %g whatever it is, and llama.cpp has one "+
			"for all", d.Eps, eps)
	case l.QRank > 0 && (d.Layers == 26 || d.Layers == 27 || d.Layers == 48 && d.Vocab == 128256):
		return unsaid("q_lora_rank is %d: by its %d layers llama.cpp takes the model for a smaller one, which has none",
			l.QRank, d.Layers)
	case math.Abs(scale-1) > 1e-9 && kind != "yarn":
		return unsaid("rope_scaling has mscale_all_dim with rope_type %q: llama.cpp scales scores with yarn alone", kind)
	}
	return nil
}

// latentScale returns what queries and keys are multiplied by because of their context's length.
func latentScale(a nn.AttentionConfig) float64 {
	if a.Latent == nil {
		return 1
	}
	return math.Sqrt(a.Scale * math.Sqrt(float64(a.Latent.Plain+a.Latent.Rotary)))
}

func latentKeys(set func(key string, value any), m *models.Model) {
	l := m.Decoder.Config().Attention.Latent
	set("attention.q_lora_rank", uint32(l.QRank))
	set("attention.kv_lora_rank", uint32(l.KVRank))
	set("attention.key_length_mla", uint32(l.Plain+l.Rotary))
	set("attention.value_length_mla", uint32(l.Value))
	glmKeys(set, m)
}

// latentSplit takes the layer that makes keys and values apart, by heads: that of keys is turned, since llama.cpp
// multiplies queries by it.
func latentSplit(m *models.Model, path string, shape []int) []part {
	if path != "self_attn.kv_b_proj.weight" {
		return nil
	}
	a := m.Decoder.Config().Attention
	l, all := a.Latent, shape[0]
	head := l.Plain + l.Value
	return []part{
		{name: "attn_k_b.weight", shape: []int{a.Heads, l.KVRank, l.Plain}, turned: true,
			at: func(row int) int { return row%l.KVRank*all + row/l.KVRank*head }},
		{name: "attn_v_b.weight", shape: []int{a.Heads, l.Value, l.KVRank},
			at: func(row int) int { return (row/l.Value*head + l.Plain + row%l.Value) * l.KVRank }},
	}
}

// latentOrder returns the row of the folder's tensor that is a row of the file's, where only some of a head's rotate
// and do so in halves, nil for the same.
func latentOrder(a nn.AttentionConfig, name string) func(row int) int {
	if a.Pairing == core.Interleaved {
		return nil
	}
	l := a.Latent
	plain, width := l.Plain, l.Plain+l.Rotary
	switch {
	case strings.Contains(name, ".attn_kv_a_mqa."):
		plain, width = l.KVRank, l.KVRank+l.Rotary
	case !strings.Contains(name, ".attn_q.") && !strings.Contains(name, ".attn_q_b."):
		return nil
	}
	turn := neighbours(l.Rotary)
	return func(row int) int {
		if at := row % width; at >= plain {
			return row - at + plain + turn(at-plain)
		}
		return row
	}
}
