package models

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "gemma2", Models: "Gemma 2",
		Differs: "norms before and after attention and MLP, with weights around zero; embeddings times the root of their width; a GELU; " +
			"capped scores and logits; a window in every other layer",
		Sample: `{"sliding_window": 4, "query_pre_attn_scalar": 10, "attn_logit_softcapping": 3, "final_logit_softcapping": 5, "pad_token_id": 0,
			"attention_bias": true}`,
		defaults: func() familyConfig {
			return &gemma2{gemma{Config: gemmaConfig(8192, 10000), QueryPreAttnScalar: 256, AttnLogitSoftcapping: new(50.0),
				FinalLogitSoftcapping: new(30.0)}}
		}})
}

// gemma2 has a sliding window in its first layer, and in every other one.
type gemma2 struct{ gemma }

func (c *gemma2) decoder() (nn.DecoderConfig, error) { return c.build(2) }

// gemma is what Gemma 2 and 3 have in common.
type gemma struct {
	hf.Config
	HiddenActivation      string   `json:"hidden_activation"`
	QueryPreAttnScalar    float64  `json:"query_pre_attn_scalar"`
	AttnLogitSoftcapping  *float64 `json:"attn_logit_softcapping"`
	FinalLogitSoftcapping *float64 `json:"final_logit_softcapping"`
	Bidirectional         bool     `json:"use_bidirectional_attention"`
}

// gelu is the name of the activation in config.json.
const gelu = "gelu_pytorch_tanh"

func gemmaConfig(positions int, theta float64) hf.Config {
	return hf.Config{NumKeyValueHeads: 4, HeadDim: 256, MaxPositionEmbeddings: positions, DefaultTheta: theta, TieWordEmbeddings: true,
		PadTokenID: new(0), SlidingWindow: new(4096), Activation: gelu}
}

// build describes a decoder of which each layer has a window but every so many-th.
func (c *gemma) build(every int) (nn.DecoderConfig, error) {
	if err := c.check(); err != nil {
		return nn.DecoderConfig{}, err
	}
	if c.LayerTypes == nil {
		for i := range c.NumHiddenLayers {
			c.LayerTypes = append(c.LayerTypes, hf.LayerType((i+1)%every != 0))
		}
	}
	d, err := c.Decoder(hf.Traits{Sliding: hf.Sliding{Size: c.EverySliding().Size, Typed: true}})
	d.NormOffset = 1
	d.Norms = nn.LayerNorms{Attention: "input_layernorm", PostAttention: "post_attention_layernorm",
		Block: "pre_feedforward_layernorm", PostBlock: "post_feedforward_layernorm"}
	d.Scales.Embedding = math.Sqrt(float64(c.HiddenSize))
	d.Attention.Scale = 1 / math.Sqrt(c.QueryPreAttnScalar)
	if c.AttnLogitSoftcapping != nil {
		d.Attention.Cap = *c.AttnLogitSoftcapping
	}
	if c.FinalLogitSoftcapping != nil {
		d.LogitCap = *c.FinalLogitSoftcapping
	}
	d.Block = func(b *nn.Builder, _ int, path, site string) nn.Block {
		return nn.NewGELUMLP(b, path, site, c.HiddenSize, c.IntermediateSize)
	}
	return d, err
}

func (c *gemma) check() error {
	sensible := func(v float64) bool { return v >= 1e-6 && v <= 1e6 }
	switch {
	case c.HiddenActivation != "" && c.HiddenActivation != gelu:
		return fmt.Errorf("config.json: hidden_activation %q is not supported; supported: %s", c.HiddenActivation, gelu)
	case !sensible(c.QueryPreAttnScalar):
		return fmt.Errorf("config.json: query_pre_attn_scalar is %g, must be positive, and at most 1e6", c.QueryPreAttnScalar)
	case c.AttnLogitSoftcapping != nil && !sensible(*c.AttnLogitSoftcapping):
		return fmt.Errorf("config.json: attn_logit_softcapping is %g, must be positive and at most 1e6, or null for none", *c.AttnLogitSoftcapping)
	case c.FinalLogitSoftcapping != nil && !sensible(*c.FinalLogitSoftcapping):
		return fmt.Errorf("config.json: final_logit_softcapping is %g, must be positive and at most 1e6, or null for none", *c.FinalLogitSoftcapping)
	case c.Bidirectional:
		return fmt.Errorf("config.json: use_bidirectional_attention is not supported: every token sees only those before it")
	}
	return nil
}
