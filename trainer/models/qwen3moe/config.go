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
	// RouterAuxLossCoef is the weight of the load-balancing loss, with output_router_logits.
	RouterAuxLossCoef float64 `json:"router_aux_loss_coef"`
}

func parse(data []byte) (*config, error) {
	window := 4096
	c := &config{Config: hf.Config{NumKeyValueHeads: 4, IntermediateSize: 6144, MaxPositionEmbeddings: 32768, SlidingWindow: &window}, NumExperts: 128,
		NumExpertsPerTok: 8, MoEIntermediateSize: 768, DecoderSparseStep: 1, RouterAuxLossCoef: 0.001} // the family's defaults
	if err := hf.Decode(data, c); err != nil {
		return nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, err
	}
	if err := hf.CheckExperts("num_experts", c.NumExperts, c.NumExpertsPerTok, c.MoEIntermediateSize); err != nil {
		return nil, err
	}
	switch {
	case c.DecoderSparseStep < 1:
		return nil, fmt.Errorf("config.json: decoder_sparse_step is %d, must be positive", c.DecoderSparseStep)
	case !(c.RouterAuxLossCoef >= 0):
		return nil, fmt.Errorf("config.json: router_aux_loss_coef is %g, must not be negative", c.RouterAuxLossCoef)
	}
	return c, nil
}

// sparse reports whether a layer has experts.
func (c *config) sparse(layer int) bool {
	return !slices.Contains(c.MLPOnlyLayers, layer) && (layer+1)%c.DecoderSparseStep == 0
}

// traits: with use_sliding_window, every layer has the window.
func (c *config) traits() hf.Traits {
	t := hf.Traits{SwitchedWindow: true}
	if c.UseSlidingWindow && c.SlidingWindow != nil {
		t.Sliding.Size = *c.SlidingWindow
	}
	return t
}
