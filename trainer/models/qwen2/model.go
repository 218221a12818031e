// Package qwen2 builds Qwen2 and Qwen2.5 models: Llama's decoder with biases on queries,
// keys and values, and a sliding window in the later layers, if it is switched on.
package qwen2

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes.
func New(config []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	window := 4096
	c := hf.Config{NumKeyValueHeads: 32, MaxPositionEmbeddings: 32768, SlidingWindow: &window, MaxWindowLayers: 28} // the family's defaults
	if err := hf.Decode(config, &c); err != nil {
		return nil, nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, nil, err
	}
	d, err := c.Decoder(hf.Traits{SwitchedWindow: true, Sliding: c.SwitchedSliding()})
	if err != nil {
		return nil, nil, err
	}
	d.Attention.Bias, d.Attention.OutBias = true, false // whatever attention_bias says
	m, err := nn.NewDecoder(b, d)
	return m, &c, err
}
