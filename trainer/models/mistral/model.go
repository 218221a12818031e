// Package mistral builds Mistral models: Llama's decoder without biases, whose layers all
// have a sliding window, unless the configuration takes it away.
package mistral

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes. An absent sliding_window is one of
// 4096 tokens, as in transformers; null is none.
func New(config []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	window := 4096
	c := hf.Config{NumKeyValueHeads: 8, MaxPositionEmbeddings: 4096 * 32, SlidingWindow: &window} // the family's defaults
	if err := hf.Decode(config, &c); err != nil {
		return nil, nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, nil, err
	}
	var t hf.Traits
	if c.SlidingWindow != nil {
		t.Sliding.Size = *c.SlidingWindow
	}
	d, err := c.Decoder(t)
	if err != nil {
		return nil, nil, err
	}
	d.Attention.Bias, d.Attention.OutBias = false, false // whatever attention_bias says
	m, err := nn.NewDecoder(b, d)
	return m, &c, err
}
