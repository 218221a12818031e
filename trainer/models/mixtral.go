package models

import (
	"fmt"
	"strings"

	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "mixtral", Models: "Mixtral 8x7B and 8x22B",
		Differs: "as mistral, and top-k experts by a softmax over the chosen; a window in all layers if `sliding_window` is there",
		Sample:  `{"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5}`,
		defaults: func() familyConfig {
			return &mixtral{Config: hf.Config{NumKeyValueHeads: 8, MaxPositionEmbeddings: 4096 * 32, RMSNormEps: new(1e-5), DefaultTheta: 1e6},
				NumLocalExperts: 8, NumExpertsPerTok: 2, RouterLoss: hf.RouterLoss{RouterAuxLossCoef: 0.001}}
		}})
}

// mixtral is Mistral's decoder, all of whose MLPs are experts.
type mixtral struct {
	hf.Config
	hf.RouterLoss
	NumLocalExperts   int     `json:"num_local_experts"`
	NumExpertsPerTok  int     `json:"num_experts_per_tok"`
	RouterJitterNoise float64 `json:"router_jitter_noise"`
}

func (c *mixtral) decoder() (nn.DecoderConfig, error) {
	if err := hf.CheckExperts("num_local_experts", c.NumLocalExperts, c.NumExpertsPerTok, c.IntermediateSize); err != nil {
		return nn.DecoderConfig{}, err
	}
	if c.RouterJitterNoise != 0 {
		return nn.DecoderConfig{}, fmt.Errorf("config.json: router_jitter_noise %g is not supported; supported: 0", c.RouterJitterNoise)
	}
	d, err := c.Decoder(hf.Traits{Sliding: c.EverySliding()})
	d.Attention.Bias, d.Attention.OutBias = false, false // whatever attention_bias says
	d.Block = func(b *nn.Builder, _ int, path, site string) nn.Block {
		path = strings.TrimSuffix(path, "mlp") + "block_sparse_moe"
		return nn.NewMoE(b, path, site, nn.MoEConfig{Hidden: c.HiddenSize, Intermediate: c.IntermediateSize,
			Names:  nn.ExpertNames{Gate: "w1", Up: "w3", Down: "w2"},
			Router: nn.RouterConfig{Experts: c.NumLocalExperts, TopK: c.NumExpertsPerTok, Normalize: true}})
	}
	if err == nil {
		d.Balance, err = c.Balance()
	}
	return d, err
}
