package main

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/nn"
)

const batch, seq, vocab, dim = 4, 64, 50, 256

// model is an embedding, a norm and a head. Its Body has the norm's site for the patcher.
type model struct {
	nn.Body
	embed *nn.Embedding
	norm  *nn.RMSNorm
	head  *nn.Linear
}

func newModel(mem core.Memory) (*model, error) {
	b := nn.NewBuilder(mem)
	m := &model{embed: nn.NewEmbedding(b, "embed", vocab, dim, -1),
		norm: nn.NewRMSNorm(b, "norm", "norm", dim, 1e-5), head: nn.NewLinear(b, "head", dim, vocab, false)}
	m.Body = b.Body()
	for _, p := range m.Params() {
		for i, values := 0, p.Tensor.Float32s(); i < len(values); i++ {
			values[i] = float32(i*37%101)/101 - 0.5
		}
	}
	return m, b.Err()
}

// loss runs the model forward and backward on one batch, with what its site holds.
func (m *model) loss(ctx context.Context, mem core.Memory) (float64, error) {
	c, err := nn.NewContext(mem, batch, seq, seq)
	if err != nil {
		return 0, err
	}
	loss := nn.CrossEntropy(c, m.head.Forward(c, m.norm.Forward(c, m.embed.Forward(c))))
	program, err := m.Compile(c, loss, false)
	if err != nil {
		return 0, err
	}
	defer program.Close() // only then can the sites be patched again
	for i := range program.Batch.IDs {
		program.Batch.IDs[i], program.Batch.Labels[i] = int32(i%vocab), int32(i%vocab)
	}
	program.Batch.Divisor[0] = batch * (seq - 1) // each token but the last of a row has a next one
	value, err := program.Forward(ctx)
	if err != nil {
		return 0, err
	}
	return value, program.Backward(ctx)
}
