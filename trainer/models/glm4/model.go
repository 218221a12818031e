// Package glm4 builds GLM-4-0414 models. They differ from Llama in four ways: a norm
// stands after attention and MLP too (sandwich norms); gate and up are one matrix, the
// gate first; part of each head rotates, in neighbouring pairs; and only queries, keys
// and values have biases.
package glm4

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/models/hf"
	"github.com/seed98097648/tune/trainer/nn"
)

// New builds the model that config.json describes.
func New(config []byte, b *nn.Builder) (*nn.Decoder, *hf.Config, error) {
	c := defaults()
	if err := hf.Decode(config, c); err != nil {
		return nil, nil, err
	}
	if err := c.Complete(); err != nil {
		return nil, nil, err
	}
	d, err := c.Decoder(hf.Traits{PartialRotary: true})
	if err != nil {
		return nil, nil, err
	}
	d.Sandwich = true
	d.Attention.OutBias = false
	d.Attention.Pairing = core.Interleaved
	d.Block = func(b *nn.Builder, _ int, path, site string) nn.Block {
		return nn.NewPackedMLP(b, path, site, c.HiddenSize, c.IntermediateSize)
	}
	m, err := nn.NewDecoder(b, d)
	return m, c, err
}

// defaults are what transformers takes for fields that the file does not have.
func defaults() *hf.Config {
	partial, eps, padding := 0.5, 1.5625e-7, 151329
	return &hf.Config{NumKeyValueHeads: 2, HeadDim: 128, MaxPositionEmbeddings: 131072, PartialRotaryFactor: &partial,
		RMSNormEps: &eps, PadTokenID: &padding, AttentionBias: true}
}
