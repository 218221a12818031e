package models

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "qwen3_moe", Models: "Qwen3-30B-A3B and its kin",
		Differs: "as qwen3, and top-k experts by a softmax; with `use_sliding_window`, a window in all layers",
		Sample:  `{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 10, "norm_topk_prob": true, "mlp_only_layers": [0]}`,
		defaults: func() familyConfig {
			return &qwen3MoE{Config: hf.Config{NumKeyValueHeads: 4, IntermediateSize: 6144, MaxPositionEmbeddings: 32768, SlidingWindow: new(4096)},
				NumExpertsPerTok: 8, MoEIntermediateSize: 768, DecoderSparseStep: 1,
				RouterLoss: hf.RouterLoss{RouterAuxLossCoef: 0.001}}
		}})
}

// qwen3MoE is the Qwen3 decoder whose MLPs are top-k experts in the layers that the
// configuration makes sparse.
type qwen3MoE struct {
	hf.Config
	hf.RouterLoss
	NumExperts          *int  `json:"num_experts"`
	NumLocalExperts     *int  `json:"num_local_experts"` // the same, as transformers 5 writes it
	NumExpertsPerTok    int   `json:"num_experts_per_tok"`
	MoEIntermediateSize int   `json:"moe_intermediate_size"`
	NormTopKProb        bool  `json:"norm_topk_prob"`
	DecoderSparseStep   int   `json:"decoder_sparse_step"`
	MLPOnlyLayers       []int `json:"mlp_only_layers"`
}

func (c *qwen3MoE) decoder() (nn.DecoderConfig, error) {
	if err := c.check(); err != nil {
		return nn.DecoderConfig{}, err
	}
	t := hf.Traits{SwitchedWindow: true}
	if c.UseSlidingWindow {
		t.Sliding = c.EverySliding()
	}
	d, err := c.Decoder(t)
	d.Attention.QKNorm = true
	dense := d.Block
	d.Block = func(b *nn.Builder, layer int, path, site string) nn.Block {
		if !c.sparse(layer) {
			return dense(b, layer, path, site)
		}
		return nn.NewMoE(b, path, site, nn.MoEConfig{Hidden: c.HiddenSize, Intermediate: c.MoEIntermediateSize,
			Router: nn.RouterConfig{Experts: c.experts(), TopK: c.NumExpertsPerTok, Normalize: c.NormTopKProb}})
	}
	if err == nil {
		d.Balance, err = c.Balance()
	}
	return d, err
}

func (c *qwen3MoE) check() error {
	if a, b := c.NumExperts, c.NumLocalExperts; a != nil && b != nil && *a != *b {
		return fmt.Errorf("config.json: num_experts is %d, and num_local_experts %d: leave out the one that does not count", *a, *b)
	}
	if err := hf.CheckExperts("num_experts", c.experts(), c.NumExpertsPerTok, c.MoEIntermediateSize); err != nil {
		return err
	}
	if c.DecoderSparseStep < 1 {
		return fmt.Errorf("config.json: decoder_sparse_step is %d, must be positive", c.DecoderSparseStep)
	}
	return nil
}

func (c *qwen3MoE) experts() int { return *cmp.Or(c.NumExperts, c.NumLocalExperts, new(128)) }

// sparse reports whether a layer has experts.
func (c *qwen3MoE) sparse(layer int) bool {
	return !slices.Contains(c.MLPOnlyLayers, layer) && (layer+1)%c.DecoderSparseStep == 0
}
