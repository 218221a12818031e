// Package qwen3 builds dense Qwen3 models: Llama's decoder with an RMSNorm over every
// head of queries and keys.
package qwen3

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes.
func New(config []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	window := 4096
	c := hf.Config{HeadDim: 128, NumKeyValueHeads: 32, MaxPositionEmbeddings: 32768, MaxWindowLayers: 28, SlidingWindow: &window} // the family's defaults
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
	d.Attention.QKNorm = true
	m, err := nn.NewDecoder(b, d)
	return m, &c, err
}
