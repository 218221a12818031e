package models

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "llama", Models: "Llama 1 to 3",
		Sample:   `{"attention_bias": true, "mlp_bias": true}`,
		defaults: func() familyConfig { return new(llama) }})
}

// llama has grouped-query attention with rotary positions and a SwiGLU MLP, both
// optionally with biases.
type llama struct{ hf.Config }

func (c *llama) decoder() (nn.DecoderConfig, error) { return c.Decoder(hf.Traits{MLPBias: true}) }
