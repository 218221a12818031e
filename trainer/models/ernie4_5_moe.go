package models

import (
	"cmp"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "ernie4_5_moe", Models: "ERNIE 4.5 21B-A3B and 300B-A47B",
		Differs: "as ernie4_5, and top-k experts by a softmax with a correction bias, in the layers from `moe_layer_start_index` on; " +
			"experts shared by all tokens",
		Sample: `{"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 10, "pad_token_id": 0, "tie_word_embeddings": false}`,
		defaults: func() familyConfig {
			return &ernie45MoE{Config: hf.Config{NumKeyValueHeads: 4, MaxPositionEmbeddings: 131072, RMSNormEps: new(1e-5),
				DefaultTheta: 5e5, TieWordEmbeddings: true, PadTokenID: new(0)},
				MoENumExperts: 64, MoEIntermediateSize: 1536, MoENumSharedExperts: 2, MoELayerStartIndex: 1, MoELayerEndIndex: -1,
				MoELayerInterval: 1, MoENormMin: 1e-12, RouterLoss: hf.RouterLoss{RouterAuxLossCoef: 0.001}}
		}})
}

// ernie45MoE is ernie45 without biases, of which some layers have experts: a bias corrects the
// softmax for the choice alone. What the files hold to predict several tokens at a time is left
// out, as in transformers.
type ernie45MoE struct {
	hf.Config
	hf.RouterLoss
	UseBias             bool    `json:"use_bias"`
	MoENumExperts       int     `json:"moe_num_experts"`
	MoEK                *int    `json:"moe_k"`
	NumExpertsPerTok    *int    `json:"num_experts_per_tok"` // the same, which transformers reads, too
	MoEIntermediateSize int     `json:"moe_intermediate_size"`
	MoENumSharedExperts int     `json:"moe_num_shared_experts"` // 0 for none
	MoELayerStartIndex  int     `json:"moe_layer_start_index"`
	MoELayerEndIndex    int     `json:"moe_layer_end_index"` // the last with experts, -1 for the last of all
	MoELayerInterval    int     `json:"moe_layer_interval"`
	MoENormMin          float64 `json:"moe_norm_min"`
}

func (c *ernie45MoE) decoder() (nn.DecoderConfig, error) {
	if err := c.check(); err != nil {
		return nn.DecoderConfig{}, err
	}
	c.ExtraNames = "mtp"
	d, err := c.Decoder(hf.Traits{})
	d.Attention.Bias, d.Attention.OutBias = false, false // whatever attention_bias says
	d.Attention.Pairing = core.Interleaved
	dense := d.Block
	d.Block = func(b *nn.Builder, layer int, path, site string) nn.Block {
		if !c.sparse(layer) {
			return dense(b, layer, path, site)
		}
		return nn.NewMoE(b, path, site, nn.MoEConfig{Hidden: c.HiddenSize, Intermediate: c.MoEIntermediateSize,
			Shared: c.MoENumSharedExperts * c.MoEIntermediateSize,
			Router: nn.RouterConfig{Experts: c.MoENumExperts, TopK: c.perToken(), Normalize: true, Bias: true,
				BiasName: path + ".moe_statics.e_score_correction_bias"}})
	}
	if err == nil {
		d.Balance, err = c.Balance()
	}
	return d, err
}

func (c *ernie45MoE) check() error {
	if a, b := c.MoEK, c.NumExpertsPerTok; a != nil && b != nil && *a != *b {
		return fmt.Errorf("config.json: moe_k is %d, and num_experts_per_tok %d: leave out the one that does not count", *a, *b)
	}
	if err := hf.CheckExperts("moe_num_experts", c.MoENumExperts, c.perToken(), c.MoEIntermediateSize); err != nil {
		return err
	}
	switch {
	case c.UseBias:
		return fmt.Errorf("config.json: use_bias is not supported by model_type %s", c.ModelType)
	case c.MoENumSharedExperts < 0 || c.MoENumSharedExperts > hf.MostExperts:
		return fmt.Errorf("config.json: moe_num_shared_experts is %d, must be between 0 and %d", c.MoENumSharedExperts, hf.MostExperts)
	case c.MoELayerInterval < 1:
		return fmt.Errorf("config.json: moe_layer_interval is %d, must be positive", c.MoELayerInterval)
	case c.MoENormMin > 1/float64(hf.MostExperts): // which the sum of the k largest of a softmax is above
		return fmt.Errorf("config.json: moe_norm_min %g is not supported; supported: at most 1e-4", c.MoENormMin)
	}
	return nil
}

func (c *ernie45MoE) perToken() int { return *cmp.Or(c.MoEK, c.NumExpertsPerTok, new(6)) }

// sparse reports whether a layer has experts.
func (c *ernie45MoE) sparse(layer int) bool {
	return (layer+1)%c.MoELayerInterval == 0 && layer >= c.MoELayerStartIndex && (c.MoELayerEndIndex == -1 || layer <= c.MoELayerEndIndex)
}
