package models

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "qwen2", Models: "Qwen2, Qwen2.5",
		Differs: "biases on q, k and v; a window from layer `max_window_layers` on, or by `layer_types`, with `use_sliding_window`",
		Sample:  `{"tie_word_embeddings": true, "use_sliding_window": true, "sliding_window": 3, "max_window_layers": 1}`,
		defaults: func() familyConfig {
			return &qwen2{hf.Config{NumKeyValueHeads: 32, MaxPositionEmbeddings: 32768, SlidingWindow: new(4096), MaxWindowLayers: 28}}
		}})
}

// qwen2 is Llama's decoder with biases on queries, keys and values, and a sliding window
// in the later layers, if it is switched on.
type qwen2 struct{ hf.Config }

func (c *qwen2) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{SwitchedWindow: true, Sliding: c.SwitchedSliding()})
	d.Attention.Bias, d.Attention.OutBias = true, false // whatever attention_bias says
	return d, err
}
