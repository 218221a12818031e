package models

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "smollm3", Models: "SmolLM3",
		Differs: "every fourth layer without rotary positions, or those of `no_rope_layers`; with `use_sliding_window`, a window in these layers, " +
			"or by `layer_types`",
		Sample: `{"no_rope_layer_interval": 2, "use_sliding_window": true, "sliding_window": 4, "pad_token_id": 2, "attention_bias": true, "mlp_bias": true}`,
		defaults: func() familyConfig {
			return &smolLM3{Config: hf.Config{NumKeyValueHeads: 4, MaxPositionEmbeddings: 32768, DefaultTheta: 2e6, TieWordEmbeddings: true,
				PadTokenID: new(128004)}, NoRopeLayerInterval: 4}
		}})
}

// smolLM3 is Llama's decoder, of which some layers have no positions at all. These have the
// window, if there is one.
type smolLM3 struct {
	hf.Config
	NoRopeLayers        []int `json:"no_rope_layers"` // 0 for a layer without
	NoRopeLayerInterval int   `json:"no_rope_layer_interval"`
}

func (c *smolLM3) decoder() (nn.DecoderConfig, error) {
	if err := c.complete(); err != nil {
		return nn.DecoderConfig{}, err
	}
	d, err := c.Decoder(hf.Traits{MLPBias: true, SwitchedWindow: true, Sliding: c.SwitchedSliding()})
	rope := d.Attention.Rope
	d.Rope = func(layer int) *nn.RopeTable {
		if c.NoRopeLayers[layer] == 0 {
			return nil
		}
		return rope
	}
	return d, err
}

// complete fills in which layers have no positions and which a window.
func (c *smolLM3) complete() error {
	switch {
	case c.NoRopeLayers != nil && len(c.NoRopeLayers) < c.NumHiddenLayers:
		return fmt.Errorf("config.json: no_rope_layers has %d entries for num_hidden_layers %d", len(c.NoRopeLayers), c.NumHiddenLayers)
	case c.NoRopeLayers == nil && c.NoRopeLayerInterval < 1:
		return fmt.Errorf("config.json: no_rope_layer_interval is %d, must be positive", c.NoRopeLayerInterval)
	}
	if c.NoRopeLayers == nil {
		for i := range c.NumHiddenLayers {
			c.NoRopeLayers = append(c.NoRopeLayers, min((i+1)%c.NoRopeLayerInterval, 1))
		}
	}
	if c.LayerTypes == nil && c.UseSlidingWindow && c.SlidingWindow != nil {
		for _, rope := range c.NoRopeLayers[:c.NumHiddenLayers] {
			c.LayerTypes = append(c.LayerTypes, hf.LayerType(rope == 0))
		}
	}
	return nil
}
