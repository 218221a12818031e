package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// tiny returns the configuration of a small model whose sizes all differ.
func tiny(change ...func(*DecoderConfig)) DecoderConfig {
	table := &RopeTable{InvFreq: []float64{1, 0.3, 0.1}, Scale: 1}
	cfg := DecoderConfig{Vocab: 23, Hidden: 10, Layers: 2, Eps: 1e-5, Padding: -1,
		Attention: AttentionConfig{Hidden: 10, Heads: 4, KVHeads: 2, HeadDim: 6, Eps: 1e-6, Rope: table, Pairing: core.Half},
		Block: func(b *Builder, _ int, path, site string) Block {
			return NewMLP(b, path, site, 10, 14, false)
		}}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

func withBiases(cfg *DecoderConfig) {
	cfg.Attention.Bias, cfg.Attention.OutBias = true, true
	cfg.Block = func(b *Builder, _ int, path, site string) Block { return NewMLP(b, path, site, 10, 14, true) }
}

func withQKNorm(cfg *DecoderConfig) { cfg.Attention.QKNorm = true }

func packed(cfg *DecoderConfig) { cfg.Attention.Packed = true }

func tied(cfg *DecoderConfig) { cfg.Tied = true }

func partialInterleaved(cfg *DecoderConfig) {
	cfg.Attention.Rope = &RopeTable{InvFreq: []float64{1, 0.2}, Scale: 1.3}
	cfg.Attention.Pairing = core.Interleaved
}

// oneLayer leaves few places where a token could change its experts.
func oneLayer(cfg *DecoderConfig) { cfg.Layers = 1 }

func withExperts(k int, normalized bool) func(*DecoderConfig) {
	return func(cfg *DecoderConfig) {
		cfg.Block = func(b *Builder, _ int, path, site string) Block {
			return NewMoE(b, path, site, MoEConfig{Hidden: 10, Intermediate: 7,
				Router: RouterConfig{Experts: 4, TopK: k, Normalize: normalized}})
		}
	}
}

// withSigmoids has GLM-4.5's router and a shared expert.
func withSigmoids(cfg *DecoderConfig) {
	cfg.Block = func(b *Builder, _ int, path, site string) Block {
		return NewMoE(b, path, site, MoEConfig{Hidden: 10, Intermediate: 7, Shared: 9,
			Router: RouterConfig{Experts: 6, TopK: 2,
				Sigmoid: true, Bias: true, Groups: 3, TopGroups: 2, Normalize: true, Scale: 2.5}})
	}
}

// withSandwich has GLM-4-0414's norms and its packed MLP.
func withSandwich(cfg *DecoderConfig) {
	sandwich(cfg)
	cfg.Block = func(b *Builder, _ int, path, site string) Block { return NewPackedMLP(b, path, site, 10, 14) }
}

// sandwich are GLM-4-0414's norms.
func sandwich(cfg *DecoderConfig) {
	cfg.Norms = LayerNorms{"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"}
}

// withNormsAfter has those of OLMo 2.
func withNormsAfter(cfg *DecoderConfig) {
	cfg.Norms = LayerNorms{PostAttention: "post_attention_layernorm", PostBlock: "post_feedforward_layernorm"}
	cfg.Attention.QKNormAll = true
}

// aroundZero has norms as Gemma's.
func aroundZero(cfg *DecoderConfig) {
	cfg.NormOffset = 1
	cfg.Norms = LayerNorms{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}
}

// withCaps has Gemma 2's.
func withCaps(cfg *DecoderConfig) {
	cfg.Attention.Cap, cfg.LogitCap = 1.5, 4
	cfg.Block = func(b *Builder, _ int, path, site string) Block { return NewGELUMLP(b, path, site, 10, 14) }
}

// latentAttention has values shorter or longer than queries and keys, which have eight elements.
func latentAttention(rank, value int) func(*DecoderConfig) {
	return func(cfg *DecoderConfig) {
		cfg.Attention.KVHeads, cfg.Attention.Scale = cfg.Attention.Heads, 0.3
		cfg.Attention.Latent = &Latent{QRank: rank, KVRank: 7, Plain: 2, Rotary: 6, Value: value}
	}
}

func withClampedExperts(cfg *DecoderConfig) {
	cfg.Block = func(b *Builder, _ int, path, site string) Block {
		return NewClampedMoE(b, path, site, MoEConfig{Hidden: 10, Intermediate: 7,
			Router: RouterConfig{Experts: 4, TopK: 2, Normalize: true, LogitBias: true}, Limit: 30})
	}
}

func withSinks(cfg *DecoderConfig) { cfg.Attention.Sinks = true }

// withFactors has Granite's, and a layer without rotary positions.
func withFactors(cfg *DecoderConfig) {
	cfg.Scales = Scales{Embedding: 3, Residual: 0.4, Logits: 0.25}
	cfg.Attention.Scale = 0.2
	rope := cfg.Attention.Rope
	cfg.Rope = func(layer int) *RopeTable { return []*RopeTable{nil, rope}[layer] }
}

func withWindow(n int) func(*DecoderConfig) {
	return func(cfg *DecoderConfig) { cfg.Attention.Window = n }
}

func balanced(weight float64) func(*DecoderConfig) {
	return func(cfg *DecoderConfig) { cfg.Balance = weight }
}

// newDecoder builds a model with random weights; norms are around 1, not at it.
func newDecoder(t *testing.T, cfg DecoderConfig, seed uint64) *Decoder {
	t.Helper()
	d, err := NewDecoder(NewBuilder(autograd.Heap{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	rng := newRand(seed)
	for _, p := range d.Params() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] = 0.3 * float32(rng.NormFloat64())
			switch {
			case strings.Contains(p.Name, "norm") && !p.AroundZero:
				p.Tensor.Float32s()[i]++
			case strings.Contains(p.Name, "embed"):
				p.Tensor.Float32s()[i] *= 3
			}
		}
	}
	// Biases that decide which experts are chosen, whatever the scores between 0 and 1 are:
	// a small step of a parameter then changes no choice.
	for _, p := range d.Buffers() {
		for i, e := range rng.Perm(p.Tensor.Elems()) {
			p.Tensor.Float32s()[i] = 2 * float32(e)
		}
	}
	return d
}

// TestEveryParameterHasItsGradient compares with differences of the forward pass along
// random directions: (f(p+h) - f(p-h)) / 2h with the terms in h^2 and h^4 extrapolated
// away. Its error is that of a float32 forward over 2h, some 1e-4 of the gradient's
// norm. Tokens are few, so that none changes its experts on the way.
func TestEveryParameterHasItsGradient(t *testing.T) {
	tests := map[string]DecoderConfig{
		"plain":                          tiny(),
		"tied":                           tiny(tied),
		"biases and partial interleaved": tiny(withBiases, partialInterleaved),
		"norms of queries and keys":      tiny(withQKNorm),
		"q, k and v packed":              tiny(packed, withBiases),
		"experts, softmax":               tiny(withQKNorm, oneLayer, withExperts(2, false)),
		"experts, normalized, tied":      tiny(tied, oneLayer, withExperts(3, true)),
		"all experts":                    tiny(withExperts(4, true)),
		"one expert":                     tiny(oneLayer, withExperts(1, false)),
		"norms on both sides":            tiny(withSandwich, partialInterleaved),
		"sigmoids, groups, shared":       tiny(oneLayer, withSigmoids),
		"a window":                       tiny(withWindow(2)),
		"norms after, and of all heads":  tiny(withNormsAfter),
		"norms around zero":              tiny(withQKNorm, aroundZero),
		"factors, and no positions":      tiny(withFactors),
		"caps, and a GELU":               tiny(withCaps),
		"sinks, and a window":            tiny(withSinks, withWindow(2)),
		"latent attention":               tiny(latentAttention(5, 3)),
		"latent, of long values":         tiny(latentAttention(0, 11), withBiases),
		"clamped experts":                tiny(oneLayer, withClampedExperts),
		"balanced experts":               tiny(oneLayer, withExperts(2, true), balanced(5)),
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDecoder(t, cfg, 14)
			c := newContext(t, 2, 3)
			rng := newRand(2)
			fill(t, c, randomBatch(rng, 2, 3, cfg.Vocab))
			out := d.Forward(c)
			var total float64
			outs := []*autograd.Value{out.Logits, out.Loss.Reshape(1)}
			loss := sums(c, outs, [][]float32{normal(rng, out.Logits.Shape().Elems()), {1.5}}, &total)
			prog, err := d.Compile(c, loss, false)
			if err != nil {
				t.Fatal(err)
			}
			f := func() float64 {
				if _, err := prog.Forward(t.Context()); err != nil {
					t.Fatal(err)
				}
				return total
			}
			f()
			if err := prog.Backward(t.Context()); err != nil {
				t.Fatal(err)
			}
			grads := map[*Param][]float32{} // the next run overwrites them
			for _, p := range d.Params() {
				grads[p] = slices.Clone(prog.Gradient(p))
			}
			for _, p := range d.Params() {
				got, norm := 0.0, 0.0
				direction := normal(rng, len(grads[p]))
				for i, g := range grads[p] {
					got += float64(g) * float64(direction[i])
					norm += float64(g) * float64(g)
				}
				if want := slope(f, p.Tensor.Float32s(), direction); !(math.Abs(got-want) <= 1e-3*math.Sqrt(norm)) || norm == 0 {
					t.Errorf("%s: slope %v, want %v; the gradient's norm is %.3g", p.Name, got, want, math.Sqrt(norm))
				}
			}
		})
	}
}

// slope returns the derivative of f when x moves along direction.
func slope(f func() float64, x, direction []float32) float64 {
	start := slices.Clone(x)
	at := func(h float64) float64 {
		for i := range x {
			x[i] = start[i] + float32(h*float64(direction[i]))
		}
		return f()
	}
	central := func(h float64) float64 { return (at(h) - at(-h)) / (2 * h) }
	a, b, c := central(0.02), central(0.01), central(0.005)
	copy(x, start)
	ab, bc := (4*b-a)/3, (4*c-b)/3
	return (16*bc - ab) / 15
}

// logits runs the model forward on a batch that b may change first: [B*S, V].
func logits(t *testing.T, d *Decoder, b, s int, change func(data.Batch)) []float32 {
	t.Helper()
	c := newContext(t, b, s)
	batch := randomBatch(newRand(3), b, s, d.Vocab())
	if change != nil {
		change(batch)
	}
	fill(t, c, batch)
	return forward(t, c, d.Forward(c).Logits)
}

func TestALaterTokenChangesNoEarlierLogit(t *testing.T) {
	d := newDecoder(t, tiny(withQKNorm, withExperts(2, true)), 1)
	const s = 9
	before := logits(t, d, 2, s, nil)
	for at := range s {
		after := logits(t, d, 2, s, func(b data.Batch) { b.IDs[at] = (b.IDs[at] + 1) % 23 })
		v := d.Vocab()
		equal(t, "logits before the token", after[:at*v], before[:at*v])
		equal(t, "logits of the other row", after[s*v:], before[s*v:])
		if slices.Equal(after[at*v:(at+1)*v], before[at*v:(at+1)*v]) {
			t.Errorf("token %d has no influence on its own logits", at)
		}
		if at < s-1 && slices.Equal(after[(s-1)*v:s*v], before[(s-1)*v:s*v]) {
			t.Errorf("token %d has no influence on the last logits", at)
		}
	}
}

func TestPackedDocumentsEqualSeparateOnes(t *testing.T) {
	d := newDecoder(t, tiny(withQKNorm), 1)
	lengths := []int{3, 5, 1, 4}
	total := 0
	for _, n := range lengths {
		total += n
	}
	packed := logits(t, d, 1, total, func(b data.Batch) {
		at := 0
		for doc, n := range lengths {
			for i := range n {
				b.Segments[at], b.Positions[at] = int32(doc+1), int32(i)
				at++
			}
		}
	})
	ids := randomBatch(newRand(3), 1, total, d.Vocab()).IDs
	at, v := 0, d.Vocab()
	for _, n := range lengths {
		alone := logits(t, d, 1, n, func(b data.Batch) { copy(b.IDs, ids[at:at+n]) })
		// The sums over keys have another length, and so another order.
		near(t, "document", packed[at*v:(at+n)*v], alone, 0x1p-20)
		at += n
	}
}

func TestRightPaddingChangesNoRealLogit(t *testing.T) {
	for name, cfg := range map[string]DecoderConfig{"plain": tiny(), "window": tiny(withWindow(2)),
		"sandwich": tiny(withSandwich), "experts": tiny(withSigmoids)} {
		t.Run(name, func(t *testing.T) { rightPadding(t, newDecoder(t, cfg, 1)) })
	}
}

func rightPadding(t *testing.T, d *Decoder) {
	t.Helper()
	const s, padded = 8, 3
	pad := func(token int32) []float32 {
		return logits(t, d, 1, s, func(b data.Batch) {
			for i := s - padded; i < s; i++ {
				b.IDs[i], b.Segments[i] = token, 0
			}
		})
	}
	v := d.Vocab()
	zero, five, unpadded := pad(0), pad(5), logits(t, d, 1, s, nil)
	equal(t, "logits beside other padding", five[:(s-padded)*v], zero[:(s-padded)*v])
	equal(t, "logits beside real tokens", unpadded[:(s-padded)*v], zero[:(s-padded)*v])
	if slices.Equal(five[(s-padded)*v:], zero[(s-padded)*v:]) {
		t.Error("logits at the padding do not depend on it")
	}
}

func TestPositionsMatterOnlyRelativeToEachOther(t *testing.T) {
	d := newDecoder(t, tiny(), 1)
	at := func(positions ...int32) []float32 {
		return logits(t, d, 1, 6, func(b data.Batch) { copy(b.Positions, positions) })
	}
	near(t, "shifted by one", at(1, 2, 3, 4, 5, 5), at(0, 1, 2, 3, 4, 4), 0x1p-18)
	if slices.Equal(at(0, 1, 2, 3, 4, 5), at(0, 2, 3, 3, 4, 5)) {
		t.Error("positions have no influence")
	}
}

func TestOneModelKeepsAnothersGraphApart(t *testing.T) {
	a, b := newDecoder(t, tiny(), 1), newDecoder(t, tiny(), 2)
	before := logits(t, a, 1, 4, nil)
	logits(t, b, 1, 4, nil)
	equal(t, "logits after another model ran", logits(t, a, 1, 4, nil), before)
}

// TestAForwardFromBeforeAKernelIsNotCompiled, also of a model that had none yet.
func TestAForwardFromBeforeAKernelIsNotCompiled(t *testing.T) {
	d, c := newDecoder(t, tiny(), 1), newContext(t, 1, 4)
	loss := d.Forward(c).Loss
	if err := d.Sites()[0].Hook.Swap(counting(d.Sites()[0].Op)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Compile(c, loss, true); err == nil || !strings.Contains(err.Error(), "record it again") {
		t.Errorf("error %v", err)
	}
}
