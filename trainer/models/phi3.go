package models

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "phi3", Models: "Phi-3 mini and medium, Phi-3.5-mini, Phi-4, Phi-4-mini",
		Differs: "no biases; q, k and v in one matrix, and gate and up in one, in that order; " +
			"a sliding window in all layers with `sliding_window`; part of each head may rotate, and stretched as `longrope` says",
		Sample: `{"head_dim": 8, "pad_token_id": 2, "sliding_window": 5, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 48,
			"rope_scaling": {"type": "longrope", "short_factor": [1.5, 2], "long_factor": [3, 4]}}`,
		defaults: func() familyConfig {
			return &phi3{Config: hf.Config{MaxPositionEmbeddings: 4096, OriginalMaxPositionEmbeddings: 4096,
				RMSNormEps: new(1e-5), PadTokenID: new(32000)}}
		}})
}

// phi3 is Llama's decoder without biases, whose projections are packed: one matrix gives
// queries, keys and values, and one gate and up. Part of each head may rotate.
type phi3 struct {
	hf.Config
	ResidPDrop float64 `json:"resid_pdrop"`
}

func (c *phi3) decoder() (nn.DecoderConfig, error) {
	if c.ResidPDrop != 0 {
		return nn.DecoderConfig{}, fmt.Errorf("config.json: resid_pdrop %g is not supported; supported: 0", c.ResidPDrop)
	}
	d, err := c.Decoder(hf.Traits{PartialRotary: true, LongRope: true, Sliding: c.EverySliding()})
	d.Attention.Bias, d.Attention.OutBias = false, false // whatever attention_bias says
	d.Attention.Packed = true
	d.Block = c.PackedMLP
	return d, err
}
