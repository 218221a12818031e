package nn

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/data"
)

// fuse gives the model's sites of these ops the reference as their kernel.
func fuse(t *testing.T, d *Decoder, ops ...core.Op) *Decoder {
	t.Helper()
	n := 0
	for _, s := range d.Sites() {
		if slices.Contains(ops, s.Op) {
			n++
			if err := s.Hook.Swap(reference.Kernel(s.Op)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n == 0 {
		t.Fatalf("no site offers %v", ops)
	}
	return d
}

// TestNormsOfSumsHaveASiteForBoth: those of the residual stream, but not the first, before
// which nothing is added, nor the norms before an addition, nor those of heads.
func TestNormsOfSumsHaveASiteForBoth(t *testing.T) {
	want := []string{"layers.0.post_attention_layernorm", "layers.1.input_layernorm", "layers.1.post_attention_layernorm",
		"norm"}
	for name, cfg := range map[string]DecoderConfig{"pre-norm": tiny(withQKNorm), "sandwich": tiny(withSandwich)} {
		t.Run(name, func(t *testing.T) {
			var sums, within []string
			seen := map[string]bool{}
			for _, s := range newDecoder(t, cfg, 1).Sites() {
				if s.Op == core.AddRMSNorm {
					sums = append(sums, strings.TrimSuffix(s.Path, ".add"))
				}
				if s.Within != "" && s.Op != core.Linear && s.Op != core.SwiGLU {
					within = append(within, s.Path)
					if s.Op != core.RMSNorm || s.Within != s.Path+".add" || !seen[s.Within] {
						t.Errorf("%s %s is within %s", s.Op, s.Path, s.Within)
					}
				}
				seen[s.Path] = true
			}
			if !slices.Equal(sums, want) || !slices.Equal(within, want) {
				t.Errorf("sums before %q, norms of sums %q, want %q", sums, within, want)
			}
		})
	}
}

// trained returns the loss and the gradients of all parameters.
func trained(t *testing.T, d *Decoder, b data.Batch, checkpoint bool) (loss float64, grads map[string][]float32) {
	t.Helper()
	c := newContext(t, b.B, b.S)
	c.Checkpoint = checkpoint
	fill(t, c, b)
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if loss, err = p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Backward(t.Context()); err != nil {
		t.Fatal(err)
	}
	grads = map[string][]float32{}
	for _, param := range d.Params() {
		grads[param.Name] = slices.Clone(p.Gradient(param))
	}
	return loss, grads
}

// TestFusedSumsAndRoutersTrainLikePlainOnes compares every gradient: with one of the two
// outputs' gradients dropped, or the outputs mixed up, they differ by more than rounding.
func TestFusedSumsAndRoutersTrainLikePlainOnes(t *testing.T) {
	sums, gates := []core.Op{core.AddRMSNorm}, []core.Op{core.MoEGate}
	for _, tt := range []struct {
		name string
		cfg  DecoderConfig
		ops  []core.Op
	}{
		{"pre-norm", tiny(), sums},
		{"pre-norm, other norms fused too", tiny(withQKNorm), append(sums, core.RMSNorm)},
		{"sandwich", tiny(withSandwich), sums},
		{"one layer", tiny(oneLayer), sums},
		{"softmax router", tiny(withExperts(2, true)), gates},
		{"softmax router, not normalized", tiny(withExperts(2, false)), gates},
		{"sigmoid router with groups", tiny(withSigmoids), gates},
		{"balanced experts", tiny(withExperts(2, true), balanced(5)), append(sums, gates...)},
	} {
		for _, checkpoint := range []bool{false, true} {
			name := tt.name
			if checkpoint {
				name += ", checkpoint"
			}
			t.Run(name, func(t *testing.T) {
				b := randomBatch(newRand(5), 2, 6, tt.cfg.Vocab)
				want, plain := trained(t, newDecoder(t, tt.cfg, 9), b, false)
				got, fused := trained(t, fuse(t, newDecoder(t, tt.cfg, 9), tt.ops...), b, checkpoint)
				near(t, "loss", []float32{float32(got)}, []float64{want}, 0x1p-20)
				for name, g := range fused {
					near(t, name, g, plain[name], 0x1p-16)
				}
			})
		}
	}
}

// TestFusedSumsNeedNoMoreMemory: a layer more needs no more memory with them than with fused
// norms alone but for what they save, rstd, whether layers are computed again or not.
func TestFusedSumsNeedNoMoreMemory(t *testing.T) {
	const rows, length, more = 4, 64, 5
	for _, checkpoint := range []bool{false, true} {
		growth := func(ops ...core.Op) int {
			var bytes [2]int
			for i, layers := range []int{4, 4 + more} {
				d := fuse(t, newDecoder(t, tiny(func(cfg *DecoderConfig) { cfg.Layers = layers }), 1), ops...)
				c := newContext(t, rows, length)
				c.Checkpoint = checkpoint
				p, err := d.Compile(c, d.Forward(c).Loss, false)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				bytes[i] = p.Bytes()
			}
			return bytes[1] - bytes[0]
		}
		norms, sums := growth(core.RMSNorm, core.Attention), growth(core.RMSNorm, core.AddRMSNorm, core.Attention)
		if saved := more * 2 * rows * length * 4; sums > norms+saved {
			t.Errorf("checkpoint %v: %d layers need %d bytes with fused sums, %d with fused norms", checkpoint, more, sums,
				norms)
		}
	}
}
