// Package qwen3moe builds Qwen3 mixture-of-experts models: the Qwen3 decoder whose MLPs
// are top-k experts in the layers that the configuration makes sparse.
package qwen3moe

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes.
func New(data []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	c, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.Decoder(c.traits())
	if err != nil {
		return nil, nil, err
	}
	d.Attention.QKNorm = true
	dense := d.Block
	d.Block = func(b *nn.Builder, layer int, path, site string) nn.Block {
		if !c.sparse(layer) {
			return dense(b, layer, path, site)
		}
		return nn.NewMoE(b, path, site, nn.MoEConfig{Hidden: c.HiddenSize, Intermediate: c.MoEIntermediateSize,
			Router: nn.RouterConfig{Experts: c.NumExperts, TopK: c.NumExpertsPerTok, Normalize: c.NormTopKProb}})
	}
	if c.OutputRouterLogits {
		d.Balance = c.RouterAuxLossCoef
	}
	m, err := nn.NewDecoder(b, d)
	return m, &c.Config, err
}
