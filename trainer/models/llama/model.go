// Package llama builds Llama models: grouped-query attention with rotary positions and
// a SwiGLU MLP, both optionally with biases.
package llama

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes.
func New(config []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	var c hf.Config
	if err := hf.Decode(config, &c); err != nil {
		return nil, nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, nil, err
	}
	d, err := c.Decoder(hf.Traits{MLPBias: true})
	if err != nil {
		return nil, nil, err
	}
	m, err := nn.NewDecoder(b, d)
	return m, &c, err
}
