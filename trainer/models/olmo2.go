package models

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "olmo2", Models: "OLMo 2",
		Differs: "norms after attention and MLP, and none before them; a norm over all heads of q together, and of k",
		Sample:  `{"pad_token_id": 1, "attention_bias": true}`,
		defaults: func() familyConfig {
			return &olmo2{hf.Config{RMSNormEps: new(1e-5), PadTokenID: new(1)}}
		}})
}

// olmo2 has its norms where nothing but their output is added to the residual stream, and one
// over queries, and one over keys, before these are heads.
type olmo2 struct{ hf.Config }

func (c *olmo2) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{})
	d.Norms = nn.LayerNorms{PostAttention: "post_attention_layernorm", PostBlock: "post_feedforward_layernorm"}
	d.Attention.QKNormAll = true
	return d, err
}
