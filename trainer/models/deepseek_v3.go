package models

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "deepseek_v3", Models: "DeepSeek-V3 and R1, in bfloat16, and small models of their kind",
		Differs: "latent attention: queries, and keys and values, through layers of few outputs, and positions in a part of each head; " +
			"experts as in glm4_moe",
		Sample: `{"num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 10, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
			"attention_bias": true, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 10, "n_shared_experts": 2,
			"n_group": 4, "topk_group": 2, "first_k_dense_replace": 1,
			"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1, "mscale": 1, "mscale_all_dim": 0.7}}`,
		defaults: func() familyConfig {
			return &deepseekV3{glm4MoE: glm4MoE{Config: hf.Config{MaxPositionEmbeddings: 4096, RMSNormEps: new(1e-6)},
				NRoutedExperts: 256, NSharedExperts: 1, NumExpertsPerTok: 8, MoEIntermediateSize: 2048, FirstKDenseReplace: 3,
				NGroup: 8, TopKGroup: 4, NormTopKProb: true, RoutedScalingFactor: 2.5},
				QLoRARank: new(1536), KVLoRARank: 512, QKRopeHeadDim: 64, QKNopeHeadDim: 128, VHeadDim: 128, RopeInterleave: true}
		}})
}

// deepseekV3 has GLM-4.5's experts, which are its own, and latent attention.
type deepseekV3 struct {
	glm4MoE
	QLoRARank      *int `json:"q_lora_rank"` // null for queries by one layer
	KVLoRARank     int  `json:"kv_lora_rank"`
	QKRopeHeadDim  int  `json:"qk_rope_head_dim"`
	QKNopeHeadDim  int  `json:"qk_nope_head_dim"`
	VHeadDim       int  `json:"v_head_dim"`
	RopeInterleave bool `json:"rope_interleave"`
}

func (c *deepseekV3) decoder() (nn.DecoderConfig, error) {
	if err := c.checkLatent(); err != nil {
		return nn.DecoderConfig{}, err
	}
	c.HeadDim = c.QKRopeHeadDim // of which the rotary embedding is
	d, err := c.glm4MoE.decoder()
	at := &d.Attention
	at.OutBias, at.QKNorm = c.AttentionBias, false
	at.Latent = &nn.Latent{KVRank: c.KVLoRARank, Plain: c.QKNopeHeadDim, Rotary: c.QKRopeHeadDim, Value: c.VHeadDim}
	if c.QLoRARank != nil {
		at.Latent.QRank = *c.QLoRARank
	}
	if c.RopeInterleave {
		at.Pairing = core.Interleaved
	}
	mscale := c.ScoreScale()
	at.Scale = mscale * mscale / math.Sqrt(float64(c.QKNopeHeadDim+c.QKRopeHeadDim))
	return d, err
}

func (c *deepseekV3) checkLatent() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"kv_lora_rank", c.KVLoRARank}, {"qk_rope_head_dim", c.QKRopeHeadDim}, {"qk_nope_head_dim", c.QKNopeHeadDim}, {"v_head_dim", c.VHeadDim}} {
		if f.value < 1 || f.value > 1<<16 {
			return fmt.Errorf("config.json: %s is %d, must be between 1 and %d", f.name, f.value, 1<<16)
		}
	}
	switch {
	case c.QLoRARank != nil && (*c.QLoRARank < 1 || *c.QLoRARank > 1<<20):
		return fmt.Errorf("config.json: q_lora_rank is %d, must be positive, or null for none", *c.QLoRARank)
	case c.NumKeyValueHeads != c.NumAttentionHeads:
		return fmt.Errorf("config.json: num_key_value_heads %d is not supported by model_type %s; supported: num_attention_heads, %d",
			c.NumKeyValueHeads, c.ModelType, c.NumAttentionHeads)
	case c.PartialRotaryFactor != nil && *c.PartialRotaryFactor != 1:
		return fmt.Errorf("config.json: partial_rotary_factor %g is not supported by model_type %s; supported: 1", *c.PartialRotaryFactor, c.ModelType)
	}
	return nil
}
