package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// TestResultsDoNotDependOnTheNumberOfThreads uses sizes at which every loop is shared.
func TestResultsDoNotDependOnTheNumberOfThreads(t *testing.T) {
	t.Cleanup(func() { simd.SetThreads(0) })
	const b, s = 2, 160
	for name, block := range map[string]func(*Builder, int, string, string) Block{
		"dense": func(b *Builder, _ int, path, site string) Block { return NewMLP(b, path, site, 96, 130, true) },
		"experts": func(b *Builder, _ int, path, site string) Block {
			return NewMoE(b, path, site, MoEConfig{Hidden: 96, Intermediate: 50,
				Router: RouterConfig{Experts: 5, TopK: 2, Normalize: true}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DecoderConfig{Vocab: 301, Hidden: 96, Layers: 1, Eps: 1e-6, Padding: -1, Block: block,
				Attention: AttentionConfig{Hidden: 96, Heads: 6, KVHeads: 2, HeadDim: 18, Bias: true, QKNorm: true, Eps: 1e-6,
					Rope: &RopeTable{InvFreq: []float64{1, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01}, Scale: 1}, Pairing: core.Half}}
			d := newDecoder(t, cfg, 1)
			var want [][]float32
			for _, threads := range []int{1, 2, 3, 8} {
				simd.SetThreads(threads)
				c := newContext(t, b, s)
				fill(t, c, randomBatch(newRand(2), b, s, cfg.Vocab))
				out := d.Forward(c)
				wrt := make([]*autograd.Value, 0, len(d.Params()))
				for _, p := range d.Params() {
					wrt = append(wrt, c.Leaf(p))
				}
				values, grads := run(t, c, []*autograd.Value{out.Logits, out.Loss.Reshape(1)},
					[][]float32{make([]float32, b*s*cfg.Vocab), {1}}, wrt...)
				got := append(values, grads...)
				if want == nil {
					want = got
					continue
				}
				for i, w := range want {
					if !slices.Equal(got[i], w) {
						t.Errorf("with %d threads, value %d of %d differs from one thread's", threads, i, len(want))
					}
				}
			}
		})
	}
}

func TestARowOfPaddingGivesZeroAttentionAndNoGradient(t *testing.T) {
	c := newContext(t, 2, 3)
	batch := plainBatch(2, 3)
	clear(batch.Segments[3:])
	fill(t, c, batch)
	rng := newRand(1)
	leaf := func() *autograd.Value { return param(c, "x", normal(rng, 6*2*4), 6, 2, 4) }
	wrt := []*autograd.Value{leaf(), leaf(), leaf()}
	op := attentionOp(2, 3, AttentionConfig{Heads: 2, KVHeads: 2, HeadDim: 4})
	values, grads := run(t, c, c.G.ApplyAll(op, append(slices.Clone(wrt), c.keys)...)[:1], [][]float32{normal(rng, 48)},
		wrt...)
	for i, v := range append(values, grads...) {
		equal(t, "the padded row", v[24:], make([]float32, 24))
		if slices.Equal(v[:24], make([]float32, 24)) {
			t.Errorf("value %d of the real row is zero", i)
		}
	}
}

func TestNaNReachesTheLoss(t *testing.T) {
	for _, blocks := range []func(*DecoderConfig){withBiases, withExperts(2, true)} {
		d := newDecoder(t, tiny(blocks), 1)
		c := newContext(t, 1, 4)
		fill(t, c, randomBatch(newRand(1), 1, 4, d.Vocab()))
		id := c.batch.IDs[0]
		d.embed.Weight.Tensor.Float32s()[10*id] = float32(math.NaN())
		if loss := forward(t, c, d.Forward(c).Loss.Reshape(1)); loss[0] == loss[0] {
			t.Errorf("loss %v with a NaN in the embedding", loss[0])
		}
	}
}
