package nn

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
)

// TestLinearLayersButRoutersRound has a sparse model with an adapter. The loss around the head has no such fact.
func TestLinearLayersButRoutersRound(t *testing.T) {
	d := newDecoder(t, tiny(withExperts(2, true)), 1)
	if _, _, err := d.Adapt(d.Targets()[0], Adaptation{Rank: 2, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	for _, products := range []core.DType{core.BFloat16, core.InvalidDType, core.BFloat16} {
		if err := d.Round(products); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range d.Sites() {
			want := core.InvalidDType
			if s.Op == core.Linear && !strings.HasSuffix(s.Path, ".gate.logits") {
				want, n = products, n+1
			}
			if s.Op == core.LinearCrossEntropy && (s.Plain != "") != (products != core.InvalidDType) {
				t.Errorf("products %v, but the loss is plain because of %q", products, s.Plain)
			}
			if s.Facts.Products != want {
				t.Errorf("%s: products %v, want %v", s.Path, s.Facts.Products, want)
			}
		}
		if n == 0 {
			t.Error("the model has no linear layers in blocks")
		}
	}
}

func TestPrecisionComesBeforePrograms(t *testing.T) {
	d := newDecoder(t, tiny(), 1)
	c := newContext(t, 1, 3)
	p, err := d.Compile(c, d.Forward(c).Loss, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := d.Round(core.BFloat16); err == nil || !strings.Contains(err.Error(), "before kernels and programs") {
		t.Errorf("error %v", err)
	}
	if err := d.Round(core.InvalidDType); err != nil {
		t.Errorf("nothing changes, but error %v", err)
	}
}
