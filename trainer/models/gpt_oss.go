package models

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "gpt_oss", Models: "gpt-oss-20b and 120b, in bfloat16",
		Differs: "a sink for each head; a window in every other layer; biases everywhere; experts packed, with biases and a clamped activation",
		Sample: `{"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4, "swiglu_limit": 1.5,
			"rope_scaling": {"rope_type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1, "truncate": false}}`,
		defaults: func() familyConfig {
			return &gptOSS{Config: hf.Config{NumKeyValueHeads: 8, HeadDim: 64, MaxPositionEmbeddings: 131072, RMSNormEps: new(1e-5),
				DefaultTheta: 150000, SlidingWindow: new(128), AttentionBias: true},
				NumLocalExperts: 128, NumExpertsPerTok: 4, SwiGLULimit: 7, SwiGLUAlpha: 1.702}
		}})
}

// gptOSS has attention with sinks, and experts whose activation is clamped, in all layers.
type gptOSS struct {
	hf.Config
	NumLocalExperts    int     `json:"num_local_experts"`
	NumExpertsPerTok   int     `json:"num_experts_per_tok"`
	ExpertsPerToken    int     `json:"experts_per_token"` // an older name, without effect
	SwiGLULimit        float64 `json:"swiglu_limit"`
	SwiGLUAlpha        float64 `json:"swiglu_alpha"`
	OutputRouterLogits bool    `json:"output_router_logits"`
}

func (c *gptOSS) decoder() (nn.DecoderConfig, error) {
	if err := c.check(); err != nil {
		return nn.DecoderConfig{}, err
	}
	if c.LayerTypes == nil {
		for i := range c.NumHiddenLayers {
			c.LayerTypes = append(c.LayerTypes, hf.LayerType(i%2 == 0))
		}
	}
	d, err := c.Decoder(hf.Traits{Sliding: hf.Sliding{Size: c.EverySliding().Size, Typed: true}})
	d.Attention.Sinks = true
	d.Block = func(b *nn.Builder, _ int, path, site string) nn.Block {
		return nn.NewClampedMoE(b, path, site, nn.MoEConfig{Hidden: c.HiddenSize, Intermediate: c.IntermediateSize,
			Router: nn.RouterConfig{Experts: c.NumLocalExperts, TopK: c.NumExpertsPerTok, Normalize: true, LogitBias: true},
			Limit:  c.SwiGLULimit})
	}
	return d, err
}

func (c *gptOSS) check() error {
	if err := hf.CheckExperts("num_local_experts", c.NumLocalExperts, c.NumExpertsPerTok, c.IntermediateSize); err != nil {
		return err
	}
	switch {
	case !(c.SwiGLULimit > 0) || c.SwiGLULimit > 1e6:
		return fmt.Errorf("config.json: swiglu_limit is %g, must be positive, and at most 1e6", c.SwiGLULimit)
	case c.SwiGLUAlpha != 1.702:
		return fmt.Errorf("config.json: swiglu_alpha %g is not supported; supported: 1.702", c.SwiGLUAlpha)
	case c.RopeType() == "":
		return fmt.Errorf(`config.json: rope_scaling has no rope_type, and what model_type %s then has differs between versions of `+
			`transformers: {"rope_type": "default"} is none, and that of the published models is {"rope_type": "yarn", "factor": 32, `+
			`"beta_fast": 32, "beta_slow": 1, "truncate": false, "original_max_position_embeddings": 4096}`, c.ModelType)
	case c.OutputRouterLogits:
		return fmt.Errorf("config.json: output_router_logits is not supported by model_type %s", c.ModelType)
	}
	return nil
}
