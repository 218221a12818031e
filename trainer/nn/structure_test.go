package nn

import (
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core/reference"
)

// TestTheResidualStreamIsThatOfTheFamily computes a model of one token in float64, where
// attention is the value alone, and compares every output: an addition or a norm that is
// left out, doubled, or taken for its neighbour changes them by more than rounding.
func TestTheResidualStreamIsThatOfTheFamily(t *testing.T) {
	for name, cfg := range map[string]DecoderConfig{
		"pre-norm": tiny(), "pre-norm, packed": tiny(withSandwich, func(cfg *DecoderConfig) { cfg.Norms = LayerNorms{} }),
		"q, k and v packed": tiny(withBiases, packed), "sandwich": tiny(withSandwich),
		"sandwich, gate and up apart": tiny(sandwich),
	} {
		for _, form := range []string{"plain", "kernels", "checkpoint", "kernels and checkpoint"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				d := newDecoder(t, cfg, 3)
				if strings.HasPrefix(form, "kernels") {
					for _, s := range d.Sites() {
						if err := s.Hook.Swap(reference.Kernel(s.Op)); err != nil {
							t.Fatal(err)
						}
					}
				}
				sameStream(t, d, strings.HasSuffix(form, "checkpoint"))
			})
		}
	}
}

func sameStream(t *testing.T, d *Decoder, checkpoint bool) {
	t.Helper()
	const token = 7
	c := newContext(t, 1, 1)
	c.Checkpoint = checkpoint
	c.Batch().IDs[0] = token
	out := d.Forward(c)
	for _, h := range append(out.Hidden, out.Embedded, out.Normed, out.Logits) {
		h.Keep()
	}
	prog, err := d.Compile(c, out.Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	if _, err := prog.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := wide(d.embed.Weight.Tensor.Float32s()[token*d.cfg.Hidden:][:d.cfg.Hidden])
	near(t, "embedded", prog.Tensor(out.Embedded).Float32s(), h, 0x1p-20)
	for i, l := range d.layers {
		h = l.oneToken(h)
		near(t, "the stream after a layer", prog.Tensor(out.Hidden[i]).Float32s(), h, 0x1p-20)
	}
	if len(out.Hidden) != len(d.layers) {
		t.Errorf("%d hidden states of %d layers", len(out.Hidden), len(d.layers))
	}
	h = d.norm.of(h)
	near(t, "the last norm", prog.Tensor(out.Normed).Float32s(), h, 0x1p-20)
	near(t, "logits", prog.Tensor(out.Logits).Float32s(), d.head.of(h), 0x1p-20)
}

// oneToken computes a layer for a single token.
func (l decoderLayer) oneToken(h []float64) []float64 {
	group, c := l.attention.cfg.Heads/l.attention.cfg.KVHeads, l.attention.cfg.HeadDim
	values := l.attention.in[len(l.attention.in)-1].of(l.attentionNorm.of(h)) // or queries, keys and values
	values = values[len(values)-l.attention.cfg.KVHeads*c:]
	var y []float64 // each head of queries has the value of its head of keys
	for head := range l.attention.cfg.Heads {
		y = append(y, values[head/group*c:][:c]...)
	}
	y = l.attention.o.of(y)
	if l.postAttentionNorm != nil {
		y = l.postAttentionNorm.of(y)
	}
	h = sum(h, y)
	y = l.block.(*MLP).of(l.blockNorm.of(h))
	if l.postBlockNorm != nil {
		y = l.postBlockNorm.of(y)
	}
	return sum(h, y)
}

func (m *MLP) of(x []float64) []float64 {
	var both []float64
	for _, l := range m.in {
		both = append(both, l.of(x)...)
	}
	gate, up := both[:len(both)/2], both[len(both)/2:]
	h := make([]float64, len(gate))
	for i, g := range gate {
		h[i] = g / (1 + math.Exp(-g)) * up[i]
	}
	return m.down.of(h)
}

func (l *Linear) of(x []float64) []float64 {
	w, n := wide(l.Weight.Tensor.Float32s()), len(x)
	y := make([]float64, len(w)/n)
	for i := range y {
		for j, v := range x {
			y[i] += w[i*n+j] * v
		}
	}
	if l.Bias != nil {
		y = sum(y, wide(l.Bias.Tensor.Float32s()))
	}
	return y
}

func (n *RMSNorm) of(x []float64) []float64 {
	squares := 0.0
	for _, v := range x {
		squares += v * v
	}
	y, rstd := wide(n.Weight.Tensor.Float32s()), 1/math.Sqrt(squares/float64(len(x))+n.facts.Eps)
	for i, v := range x {
		y[i] *= v * rstd
	}
	return y
}

func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func sum(a, b []float64) []float64 {
	y := make([]float64, len(a))
	for i := range a {
		y[i] = a[i] + b[i]
	}
	return y
}
