package models

import (
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "glm4_moe", Models: "GLM-4.5, GLM-4.5-Air",
		Differs: "experts scored by sigmoids, in groups, with a correction bias; an expert shared by all tokens; half of each head rotates; " +
			"biases on q, k and v, and a norm over each head of q and k if asked",
		Sample: `{"head_dim": 8, "attention_bias": true, "use_qk_norm": true, "n_routed_experts": 8, "num_experts_per_tok": 2,
			"moe_intermediate_size": 10, "n_shared_experts": 2, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5}`,
		defaults: func() familyConfig {
			return &glm4MoE{Config: hf.Config{NumKeyValueHeads: 8, IntermediateSize: 10944, MaxPositionEmbeddings: 131072,
				PartialRotaryFactor: new(0.5), RMSNormEps: new(1e-5)},
				NRoutedExperts: 128, NSharedExperts: 1, NumExpertsPerTok: 8, MoEIntermediateSize: 1408, FirstKDenseReplace: 1,
				NGroup: 1, TopKGroup: 1, NormTopKProb: true, RoutedScalingFactor: 1}
		}})
}

// glm4MoE is a pre-norm decoder, part of whose heads rotates in halves. The first layers
// have an MLP, the others experts: each is scored by a sigmoid, a bias corrects the scores
// for the choice alone, and one MLP is shared by all tokens. The layers of
// num_nextn_predict_layers, which predict several tokens at a time and which transformers
// leaves out, are left out.
type glm4MoE struct {
	hf.Config
	UseQKNorm             bool    `json:"use_qk_norm"`
	NRoutedExperts        int     `json:"n_routed_experts"`
	NSharedExperts        int     `json:"n_shared_experts"`
	NumExpertsPerTok      int     `json:"num_experts_per_tok"`
	MoEIntermediateSize   int     `json:"moe_intermediate_size"`
	FirstKDenseReplace    int     `json:"first_k_dense_replace"`
	NGroup                int     `json:"n_group"`
	TopKGroup             int     `json:"topk_group"`
	NormTopKProb          bool    `json:"norm_topk_prob"`
	RoutedScalingFactor   float64 `json:"routed_scaling_factor"`
	NumNextNPredictLayers int     `json:"num_nextn_predict_layers"`

	// Fields of related models, which mean something only with the values that this family
	// always has.
	ScoringFunc        string `json:"scoring_func"`
	TopKMethod         string `json:"topk_method"`
	MoELayerFreq       int    `json:"moe_layer_freq"`
	OutputRouterLogits bool   `json:"output_router_logits"`
}

func (c *glm4MoE) decoder() (nn.DecoderConfig, error) {
	if err := c.check(); err != nil {
		return nn.DecoderConfig{}, err
	}
	c.ExtraLayers = c.NumNextNPredictLayers
	d, err := c.Decoder(hf.Traits{PartialRotary: true})
	d.Attention.OutBias = false
	d.Attention.QKNorm = c.UseQKNorm
	dense := d.Block
	d.Block = func(b *nn.Builder, layer int, path, site string) nn.Block {
		if layer < c.FirstKDenseReplace {
			return dense(b, layer, path, site)
		}
		return nn.NewMoE(b, path, site, nn.MoEConfig{Hidden: c.HiddenSize, Intermediate: c.MoEIntermediateSize,
			Shared: c.NSharedExperts * c.MoEIntermediateSize, Router: c.router()})
	}
	return d, err
}

func (c *glm4MoE) check() error {
	if err := hf.CheckExperts("n_routed_experts", c.NRoutedExperts, c.NumExpertsPerTok, c.MoEIntermediateSize); err != nil {
		return err
	}
	switch {
	case c.NSharedExperts < 1 || c.NSharedExperts > hf.MostExperts || c.MoEIntermediateSize > math.MaxInt/hf.MostExperts:
		return fmt.Errorf("config.json: n_shared_experts is %d, must be between 1 and %d, of a sensible moe_intermediate_size", c.NSharedExperts, hf.MostExperts)
	case c.FirstKDenseReplace < 0:
		return fmt.Errorf("config.json: first_k_dense_replace is %d, must not be negative", c.FirstKDenseReplace)
	case c.NGroup < 1 || c.NRoutedExperts%c.NGroup != 0 || c.NRoutedExperts < 2*c.NGroup:
		return fmt.Errorf("config.json: n_group (%d) must divide n_routed_experts (%d) into groups of two or more", c.NGroup, c.NRoutedExperts)
	case c.TopKGroup < 1 || c.TopKGroup > c.NGroup:
		return fmt.Errorf("config.json: topk_group (%d) must be between 1 and n_group (%d)", c.TopKGroup, c.NGroup)
	case !(c.RoutedScalingFactor > 0) || c.RoutedScalingFactor > math.MaxFloat32:
		return fmt.Errorf("config.json: routed_scaling_factor is %g, must be positive", c.RoutedScalingFactor)
	case c.NumNextNPredictLayers < 0:
		return fmt.Errorf("config.json: num_nextn_predict_layers is %d, must not be negative", c.NumNextNPredictLayers)
	case c.ScoringFunc != "" && c.ScoringFunc != "sigmoid":
		return fmt.Errorf("config.json: scoring_func %q is not supported by model_type %s; supported: sigmoid", c.ScoringFunc, c.ModelType)
	case c.TopKMethod != "" && c.TopKMethod != "noaux_tc":
		return fmt.Errorf("config.json: topk_method %q is not supported by model_type %s; supported: noaux_tc", c.TopKMethod, c.ModelType)
	case c.MoELayerFreq != 0 && c.MoELayerFreq != 1:
		return fmt.Errorf("config.json: moe_layer_freq %d is not supported by model_type %s; supported: 1", c.MoELayerFreq, c.ModelType)
	case c.OutputRouterLogits:
		return fmt.Errorf("config.json: output_router_logits is not supported by model_type %s: it has no auxiliary loss, its e_score_correction_bias balances the experts",
			c.ModelType)
	}
	return nil
}

func (c *glm4MoE) router() nn.RouterConfig {
	return nn.RouterConfig{Experts: c.NRoutedExperts, TopK: c.NumExpertsPerTok, Sigmoid: true, Bias: true,
		Groups: c.NGroup, TopGroups: c.TopKGroup, Normalize: c.NormTopKProb, Scale: c.RoutedScalingFactor}
}
