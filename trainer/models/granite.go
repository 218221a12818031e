package models

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "granite", Models: "Granite 3",
		Differs: "multipliers: `embedding_multiplier`, `residual_multiplier`, `attention_multiplier` for the scale of scores, " +
			"and `logits_scaling`, which divides",
		Sample: `{"attention_bias": true, "mlp_bias": true, "embedding_multiplier": 12, "residual_multiplier": 0.22,
			"attention_multiplier": 0.3, "logits_scaling": 4, "tie_word_embeddings": true}`,
		defaults: func() familyConfig {
			return &granite{EmbeddingMultiplier: 1, ResidualMultiplier: 1, AttentionMultiplier: 1, LogitsScaling: 1}
		}})
}

// granite is Llama's decoder with four factors of its own.
type granite struct {
	hf.Config
	EmbeddingMultiplier float64 `json:"embedding_multiplier"`
	ResidualMultiplier  float64 `json:"residual_multiplier"`
	AttentionMultiplier float64 `json:"attention_multiplier"`
	LogitsScaling       float64 `json:"logits_scaling"`
}

func (c *granite) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{MLPBias: true})
	d.Attention.Scale = c.AttentionMultiplier
	d.Scales = nn.Scales{Embedding: c.EmbeddingMultiplier, Residual: c.ResidualMultiplier, Logits: 1 / c.LogitsScaling}
	for _, f := range []struct {
		name  string
		value float64
	}{{"embedding_multiplier", c.EmbeddingMultiplier}, {"residual_multiplier", c.ResidualMultiplier},
		{"attention_multiplier", c.AttentionMultiplier}, {"logits_scaling", c.LogitsScaling}} {
		if small := float32(f.value); err == nil && (!(small > 0) || small > math.MaxFloat32 || !(1/small > 0)) {
			err = fmt.Errorf("config.json: %s is %g, must be positive, and not beyond all measure", f.name, f.value)
		}
	}
	return d, err
}
