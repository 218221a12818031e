package nn

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// silent is an MLP that does not say where it gets costly.
type silent struct{ *MLP }

func (m silent) Forward(c *Context, x *autograd.Value) *autograd.Value {
	return m.down.Forward(c, m.activate(c, m.in[0].Forward(c, x), m.in[1].Forward(c, x)))
}

func withSilentBlocks(cfg *DecoderConfig) {
	cfg.Layers = 3
	cfg.Block = func(b *Builder, _ int, path, site string) Block { return silent{NewMLP(b, path, site, 10, 14, false)} }
}

// again counts the operations that are computed again for the backward pass, by their name.
func again(t *testing.T, d *Decoder, b data.Batch, change ...func(c *Context)) map[string]int {
	t.Helper()
	c := newContext(t, b.B, b.S)
	for _, f := range change {
		f(c)
	}
	fill(t, c, b)
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, s := range p.Stats() {
		if s.Again {
			counts[s.Op] += s.Calls
		}
	}
	return counts
}

// TestWhatIsComputedAgainEndsWithItsBlock: a block that says nothing is itself computed
// again, and nothing after it is.
func TestWhatIsComputedAgainEndsWithItsBlock(t *testing.T) {
	plain := func(cfg *DecoderConfig) { cfg.Layers = 3 }
	b := randomBatch(newRand(5), 2, 6, tiny().Vocab)
	if counts := again(t, newDecoder(t, tiny(withSilentBlocks), 9), b); counts["attention"] != 0 ||
		counts["linear"] != 3*2 {
		t.Errorf("computed again: %v; want two linear layers of each block, and no attention", counts)
	}
	if counts := again(t, newDecoder(t, tiny(plain), 9), b); counts["attention"] != 0 || counts["linear"] != 0 ||
		counts["silu"] != 3 {
		t.Errorf("computed again: %v; want the activation of each MLP, and no product", counts)
	}
	loss, grads := trained(t, newDecoder(t, tiny(withSilentBlocks), 9), b, false)
	want, wantGrads := trained(t, newDecoder(t, tiny(plain), 9), b, false)
	if loss != want {
		t.Errorf("loss %v, want %v", loss, want)
	}
	for name, g := range grads {
		equal(t, name, g, wantGrads[name])
	}
}

// TestPlainAttentionIsComputedAgainWhereGradientsDoNotStay, and no product before it.
func TestPlainAttentionIsComputedAgainWhereGradientsDoNotStay(t *testing.T) {
	used := func(c *Context) {
		c.Update = &autograd.Updates{Use: func(int, int, []float32) error { return nil }}
	}
	b := randomBatch(newRand(5), 2, 6, tiny().Vocab)
	counts := again(t, newDecoder(t, tiny(withQKNorm), 9), b, used)
	if n := tiny(withQKNorm).Layers; counts["attention"] != n || counts["linear"] != 0 {
		t.Errorf("computed again: %v; want attention of %d layers, and no linear layer", counts, n)
	}
}

// TestExpertsKeepNothingBehindTheirActivation: of each token's choice no more than gate and up, and some numbers of the router.
func TestExpertsKeepNothingBehindTheirActivation(t *testing.T) {
	kept := func(choices int) (bytes int) {
		d := newDecoder(t, tiny(withExperts(choices, true)), 9)
		c := newContext(t, 2, 6)
		s, err := d.Size(c, d.Forward(c).Loss, false)
		if err != nil {
			t.Fatal(err)
		}
		for path, b := range s.Between {
			if strings.HasPrefix(path, "layers.0.mlp") {
				bytes += b.Kept
			}
		}
		return bytes
	}
	const tokens, gateAndUp, hidden, number = 2 * 6, 2 * 7, 10, 4
	each := float64(kept(2)-kept(1)) / number / tokens
	if each < gateAndUp || each >= gateAndUp+hidden {
		t.Errorf("each choice keeps %v numbers, want %d of gate and up, and less than the %d of a row", each, gateAndUp, hidden)
	}
}
