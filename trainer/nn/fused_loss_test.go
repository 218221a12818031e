package nn

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
)

// fuseLoss gives the model's loss the reference as its kernel.
func fuseLoss(t *testing.T, d *Decoder) *countingKernel {
	t.Helper()
	k := counting(core.LinearCrossEntropy)
	at := slices.IndexFunc(d.Sites(), func(s core.Site) bool {
		return s.Op == core.LinearCrossEntropy &&
			s.Path == "loss"
	})
	if at < 0 {
		t.Fatal("no site for the loss")
	}
	if err := d.Sites()[at].Hook.Swap(k); err != nil {
		t.Fatal(err)
	}
	return k
}

// lossAndGradients runs a model on a batch and returns the loss, the logits if they are
// kept, and the gradient of each parameter.
func lossAndGradients(t *testing.T, d *Decoder, b data.Batch,
	keep bool) (loss float64, logits []float32, grads [][]float32) {
	t.Helper()
	c := newContext(t, b.B, b.S)
	fill(t, c, b)
	out := d.Forward(c)
	if keep {
		out.Logits.Keep()
	}
	p, err := d.Compile(c, out.Loss, false)
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
	if keep {
		logits = p.Tensor(out.Logits).Float32s()
	}
	for _, param := range d.Params() {
		grads = append(grads, slices.Clone(p.Gradient(param)))
	}
	return loss, logits, grads
}

// TestFusedLossEqualsThePlainOne has labels that are ignored, a row of nothing else, and
// a batch without any target. The limit is some roundings of float32: those of the logits
// and what the layers below make of them.
func TestFusedLossEqualsThePlainOne(t *testing.T) {
	for name, cfg := range map[string]DecoderConfig{"untied": tiny(), "tied": tiny(tied, withQKNorm)} {
		for labels, ignore := range map[string]func(i int) bool{
			"every label": func(int) bool { return false },
			"some labels": func(i int) bool { return i%3 == 1 || i >= 14 },
			"no label":    func(int) bool { return true },
		} {
			t.Run(name+"/"+labels, func(t *testing.T) {
				b := randomBatch(newRand(5), 3, 7, cfg.Vocab)
				for i := range b.Labels {
					if ignore(i) {
						b.Labels[i] = data.Ignore
					}
				}
				plain, fused := newDecoder(t, cfg, 3), newDecoder(t, cfg, 3)
				k := fuseLoss(t, fused)
				want, logits, wantGrads := lossAndGradients(t, plain, b, true)
				got, kept, grads := lossAndGradients(t, fused, b, true)
				near(t, "loss", []float32{float32(got)}, []float64{want}, 0x1p-22)
				equal(t, "logits", kept, logits)
				for i, g := range grads {
					near(t, plain.Params()[i].Name, g, wantGrads[i], 0x1p-19)
				}
				if k.forwards != 0 || k.backwards != 1 {
					t.Errorf("%d forward and %d backward passes of the kernel, want one backward pass", k.forwards, k.backwards)
				}
			})
		}
	}
}

func TestLogitsThatNobodyKeepsAreNotComputed(t *testing.T) {
	calls := func(keep bool) (n int) {
		d := newDecoder(t, tiny(), 1)
		fuseLoss(t, d)
		c := newContext(t, 2, 4)
		out := d.Forward(c)
		if keep {
			out.Logits.Keep()
		}
		p, err := d.Compile(c, out.Loss, true)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := p.Forward(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Stats() {
			if s.Op == "linear" || s.Op == "cross_entropy" {
				n += s.Calls
			}
		}
		return n
	}
	if without, with := calls(false), calls(true); with != without+1 {
		t.Errorf("%d plain products, %d when the logits are kept; want one more", without, with)
	}
}

// TestEvaluationNeedsNoGradient: without a backward pass the kernel's forward pass runs,
// and nothing is as large as the head's weight.
func TestEvaluationNeedsNoGradient(t *testing.T) {
	d := newDecoder(t, tiny(func(cfg *DecoderConfig) { cfg.Vocab = 4000 }), 1)
	k := fuseLoss(t, d)
	b := randomBatch(newRand(5), 2, 7, 4000)
	want, _, _ := lossAndGradients(t, d, b, false)
	c := newContext(t, 2, 7)
	fill(t, c, b)
	p, err := d.Compile(c, d.Forward(c).Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := p.Forward(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "loss", []float32{float32(got)}, []float64{want}, 0)
	if k.forwards != 1 || k.backwards != 1 {
		t.Errorf("%d forward and %d backward passes, want one of each", k.forwards, k.backwards)
	}
	if p.Bytes() > 4*4000*10 {
		t.Errorf("the program holds %d bytes", p.Bytes())
	}
}

func TestFusedLossNamesALabelOutsideTheVocabulary(t *testing.T) {
	d := newDecoder(t, tiny(), 1)
	fuseLoss(t, d)
	c := newContext(t, 2, 4)
	c.Batch().Labels[5] = 23
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const want = "label 23 in row 1, position 1 is neither -100 nor within the vocabulary of 23"
	if _, err := p.Forward(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestFusedLossIsNoPartOfAnotherLoss(t *testing.T) {
	d := newDecoder(t, tiny(), 1)
	fuseLoss(t, d)
	c := newContext(t, 2, 4)
	loss := sums(c, []*autograd.Value{d.Forward(c).Loss.Reshape(1)}, [][]float32{{2}}, new(float64))
	if _, err := d.Compile(c, loss, false); err == nil ||
		!strings.Contains(err.Error(), "cannot be a part of another loss") {
		t.Errorf("error %v", err)
	}
}

// TestProbeOfTheLoss: what is measured is the training of the head, in one call, with a
// part of a vocabulary that is large.
func TestProbeOfTheLoss(t *testing.T) {
	d := newDecoder(t, tiny(), 1)
	sites := d.Sites()
	site := sites[slices.IndexFunc(sites, func(s core.Site) bool { return s.Op == core.LinearCrossEntropy })]
	k := counting(site.Op)
	p, err := NewProbe(autograd.Heap{}, site, k, 2, 7, 7, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	samePrograms(t, p)
	if k.forwards != 0 || k.backwards != 1 {
		t.Errorf("%d forward and %d backward passes, want one backward pass", k.forwards, k.backwards)
	}
	if plain, fused := p.Bytes(false), p.Bytes(true); fused >= plain {
		t.Errorf("%d bytes plain and %d fused", plain, fused)
	}
	site.Facts.Vocab = 1 << 40
	large, err := NewProbe(autograd.Heap{}, site, k, 1, 2, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	large.Close()
}
