package models_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
)

const rows, length = 2, 11

// compile records the model for batches of one size.
func compile(t *testing.T, m *models.Model) *nn.Compiled {
	t.Helper()
	c, err := nn.NewContext(autograd.Heap{}, rows, length, length)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := m.Compile(c, m.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// batch is random tokens, two documents in the first row and padding in the second.
func batch(rng *rand.Rand, vocab int) data.Batch {
	n := rows * length
	b := data.Batch{B: rows, S: length, IDs: make([]int32, n), Labels: make([]int32, n), Positions: make([]int32, n), Segments: make([]int32, n)}
	for i := range n {
		at := i % length
		b.IDs[i], b.Positions[i], b.Segments[i] = rng.Int32N(int32(vocab)), int32(at), 1
		b.Labels[i] = b.IDs[i]
		switch second := i < length && at >= 6; {
		case second:
			b.Positions[i], b.Segments[i] = int32(at-6), 2
		case i >= length && at >= 8:
			b.Labels[i], b.Segments[i] = data.Ignore, 0
		}
	}
	b.Labels[6] = data.Ignore
	return b
}

// train runs AdamW steps on fresh batches and returns the losses.
func train(t *testing.T, m *models.Model, steps int) []float64 {
	t.Helper()
	prog := compile(t, m)
	defer prog.Close()
	var params []optim.Param
	for _, p := range m.Trainable() {
		params = append(params, optim.Param{Name: p.Name, Value: p.Tensor.Float32s(), Grad: prog.Gradient(p), Decay: true})
	}
	cfg := optim.DefaultConfig()
	cfg.WeightDecay = 0.1
	adam, err := optim.New(cfg, params, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 0))
	var losses []float64
	for range steps {
		b := batch(rng, m.Vocab())
		if err := prog.Batch.Fill(b, b.Targets()); err != nil {
			t.Fatal(err)
		}
		loss, err := prog.Forward(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := prog.Backward(t.Context()); err != nil {
			t.Fatal(err)
		}
		adam.Step(3e-3, 1)
		losses = append(losses, loss)
	}
	return losses
}
