package models

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "mistral", Models: "Mistral 7B and its kin",
		Differs: "no biases; a sliding window in all layers: `sliding_window`, 4096 if absent, none if null",
		Sample:  `{"sliding_window": 4}`,
		defaults: func() familyConfig {
			return &mistral{hf.Config{NumKeyValueHeads: 8, MaxPositionEmbeddings: 4096 * 32, SlidingWindow: new(4096)}}
		}})
}

// mistral is Llama's decoder without biases, whose layers all have a sliding window,
// unless the configuration takes it away.
type mistral struct{ hf.Config }

func (c *mistral) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{Sliding: c.EverySliding()})
	d.Attention.Bias, d.Attention.OutBias = false, false // whatever attention_bias says
	return d, err
}
