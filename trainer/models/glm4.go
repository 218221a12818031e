package models

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "glm4", Models: "GLM-4-0414",
		Differs: "a norm after attention and MLP too; gate and up in one matrix, the gate first; half of each head rotates, " +
			"in neighbouring pairs; biases on q, k and v",
		Sample: `{"head_dim": 8, "pad_token_id": 2}`,
		defaults: func() familyConfig {
			return &glm4{hf.Config{NumKeyValueHeads: 2, HeadDim: 128, MaxPositionEmbeddings: 131072, PartialRotaryFactor: new(0.5),
				RMSNormEps: new(1.5625e-7), PadTokenID: new(151329), AttentionBias: true}}
		}})
}

// glm4 differs from Llama in four ways: a norm stands after attention and MLP too
// (sandwich norms); gate and up are one matrix, the gate first; part of each head rotates,
// in neighbouring pairs; and only queries, keys and values have biases.
type glm4 struct{ hf.Config }

func (c *glm4) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{PartialRotary: true})
	d.Norms = nn.LayerNorms{Attention: "input_layernorm", PostAttention: "post_self_attn_layernorm",
		Block: "post_attention_layernorm", PostBlock: "post_mlp_layernorm"}
	d.Attention.OutBias = false
	d.Attention.Pairing = core.Interleaved
	d.Block = c.PackedMLP
	return d, err
}
