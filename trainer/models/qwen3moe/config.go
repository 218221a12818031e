package qwen3moe

import (
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/models/hf"
)

// config adds the sparse blocks' fields.
type config struct {
	hf.Config
	NumExperts          int   `json:"num_experts"`
	NumExpertsPerTok    int   `json:"num_experts_per_tok"`
	MoEIntermediateSize int   `json:"moe_intermediate_size"`
	NormTopKProb        bool  `json:"norm_topk_prob"`
	DecoderSparseStep   int   `json:"decoder_sparse_step"`
	MLPOnlyLayers       []int `json:"mlp_only_layers"`
	OutputRouterLogits  bool  `json:"output_router_logits"`
}

const mostExperts = 1 << 16

func parse(data []byte) (*config, error) {
	c := &config{Config: hf.Config{NumKeyValueHeads: 4, IntermediateSize: 6144, MaxPositionEmbeddings: 32768}, NumExperts: 128, NumExpertsPerTok: 8,
		MoEIntermediateSize: 768, DecoderSparseStep: 1} // the family's defaults
	if err := hf.Decode(data, c); err != nil {
		return nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, err
	}
	switch {
	case c.NumExperts < 1 || c.NumExpertsPerTok < 1 || c.NumExpertsPerTok > c.NumExperts:
		return nil, fmt.Errorf("config.json: num_experts_per_tok (%d) must be between 1 and num_experts (%d)", c.NumExpertsPerTok, c.NumExperts)
	case c.NumExperts > mostExperts:
		return nil, fmt.Errorf("config.json: num_experts is %d, at most %d make sense", c.NumExperts, mostExperts)
	case c.MoEIntermediateSize < 1:
		return nil, fmt.Errorf("config.json: moe_intermediate_size is %d, must be positive", c.MoEIntermediateSize)
	case c.DecoderSparseStep < 1:
		return nil, fmt.Errorf("config.json: decoder_sparse_step is %d, must be positive", c.DecoderSparseStep)
	case c.OutputRouterLogits:
		return nil, fmt.Errorf("config.json: output_router_logits is not supported: there is no auxiliary router loss yet")
	}
	return c, nil
}

// sparse reports whether a layer has experts.
func (c *config) sparse(layer int) bool {
	return !slices.Contains(c.MLPOnlyLayers, layer) && (layer+1)%c.DecoderSparseStep == 0
}
