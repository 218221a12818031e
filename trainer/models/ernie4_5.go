package models

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

func init() {
	register(Family{Type: "ernie4_5", Models: "ERNIE 4.5 0.3B",
		Differs: "neighbouring pairs rotate; biases everywhere with `use_bias`",
		Sample:  `{"use_bias": true, "pad_token_id": 0}`,
		defaults: func() familyConfig {
			return &ernie45{Config: hf.Config{NumKeyValueHeads: 2, HeadDim: 128, MaxPositionEmbeddings: 131072, RMSNormEps: new(1e-5),
				DefaultTheta: 5e5, TieWordEmbeddings: true, PadTokenID: new(0)}}
		}})
}

// ernie45 is Llama's decoder with rotary positions of neighbouring pairs.
type ernie45 struct {
	hf.Config
	UseBias bool `json:"use_bias"`
}

func (c *ernie45) decoder() (nn.DecoderConfig, error) {
	d, err := c.Decoder(hf.Traits{})
	d.Attention.Bias, d.Attention.OutBias = c.UseBias, c.UseBias // whatever attention_bias says
	d.Attention.Pairing = core.Interleaved
	d.Block = func(b *nn.Builder, _ int, path, site string) nn.Block {
		return nn.NewMLP(b, path, site, c.HiddenSize, c.IntermediateSize, c.UseBias)
	}
	return d, err
}
