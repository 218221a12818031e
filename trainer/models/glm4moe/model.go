// Package glm4moe builds GLM-4.5 models: a pre-norm decoder, part of whose heads rotates in
// halves. The first layers have an MLP, the others experts: each is scored by a sigmoid,
// a bias corrects the scores for the choice alone, and one MLP is shared by all tokens.
package glm4moe

import (
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes. The layers of num_nextn_predict_layers,
// which predict several tokens at a time and which transformers leaves out, are left out.
func New(data []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	c, err := parse(data)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.Decoder(hf.Traits{PartialRotary: true})
	if err != nil {
		return nil, nil, err
	}
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
	m, err := nn.NewDecoder(b, d)
	return m, &c.Config, err
}
