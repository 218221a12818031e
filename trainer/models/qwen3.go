package models

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "qwen3", Models: "Qwen3",
		Differs: "a norm over each head of q and k; windows as in qwen2",
		Sample:  `{"tie_word_embeddings": true}`,
		defaults: func() familyConfig {
			return &qwen3{hf.Config{HeadDim: 128, NumKeyValueHeads: 32, MaxPositionEmbeddings: 32768, MaxWindowLayers: 28, SlidingWindow: new(4096)}}
		}})
}

// qwen3 is Llama's decoder with an RMSNorm over every head of queries and keys.
type qwen3 struct{ hf.Config }

func (c *qwen3) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{SwitchedWindow: true, Sliding: c.SwitchedSliding()})
	d.Attention.QKNorm = true
	return d, err
}
