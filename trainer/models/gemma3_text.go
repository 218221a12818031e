package models

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "gemma3_text", Models: "Gemma 3 270M and 1B, and the text part of the larger",
		Differs: "as gemma2, but for the caps; a norm over each head of q and k; five layers of six have a window, and a rotary base of their " +
			"own, `rope_local_base_freq`",
		Sample: `{"sliding_window": 4, "sliding_window_pattern": 2, "query_pre_attn_scalar": 10, "pad_token_id": 0,
			"rope_scaling": {"rope_type": "linear", "factor": 8}}`,
		defaults: func() familyConfig {
			return &gemma3Text{gemma: gemma{Config: gemmaConfig(131072, 1e6), QueryPreAttnScalar: 256}, SlidingWindowPattern: 6}
		}})
}

// gemma3Text has a norm over each head, and two rotary embeddings: one for layers that see all
// tokens before, and one, which is not stretched, for those with a window.
type gemma3Text struct {
	gemma
	RopeLocalBaseFreq    *float64 `json:"rope_local_base_freq"`
	SlidingWindowPattern int      `json:"sliding_window_pattern"` // each so many-th layer has no window
}

func (c *gemma3Text) decoder() (nn.DecoderConfig, error) {
	if c.SlidingWindowPattern < 1 {
		return nn.DecoderConfig{}, fmt.Errorf("config.json: sliding_window_pattern is %d, must be positive", c.SlidingWindowPattern)
	}
	if c.AttnLogitSoftcapping != nil {
		return nn.DecoderConfig{}, fmt.Errorf("config.json: attn_logit_softcapping %g is not supported by model_type %s, of which "+
			"transformers ignores it; set it to null", *c.AttnLogitSoftcapping, c.ModelType)
	}
	windowed, err := c.RopeByLayer()
	if err != nil {
		return nn.DecoderConfig{}, err
	}
	d, err := c.build(c.SlidingWindowPattern)
	if err != nil {
		return d, err
	}
	local, err := c.local(windowed)
	if err == nil && len(local.InvFreq) != len(d.Attention.Rope.InvFreq) {
		err = fmt.Errorf("config.json: rope_parameters: partial_rotary_factor of sliding_attention is not supported by model_type %s; supported: 1",
			c.ModelType)
	}
	global, window := d.Attention.Rope, d.Window
	d.Attention.QKNorm = true
	d.Rope = func(layer int) *nn.RopeTable {
		if window(layer) > 0 {
			return local
		}
		return global
	}
	return d, err
}

// local returns the rotary embedding of layers with a window.
func (c *gemma3Text) local(windowed hf.Config) (*nn.RopeTable, error) {
	windowed.DefaultTheta = 1e4
	if base := c.RopeLocalBaseFreq; base != nil {
		if !(*base > 0) {
			return nil, fmt.Errorf("config.json: rope_local_base_freq is %g, must be positive", *base)
		}
		if p := windowed.RopeParameters; p != nil && p.RopeTheta != 0 && p.RopeTheta != *base {
			return nil, fmt.Errorf("config.json: rope_local_base_freq is %g, and rope_theta %g in sliding_attention of rope_parameters: "+
				"leave out the one that does not count", *base, p.RopeTheta)
		}
		windowed.RopeTheta = *base
	}
	return windowed.RopeTable()
}
