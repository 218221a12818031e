package wire

import (
	"errors"
	"math"
	"testing"

	"github.com/seed98097648/tune/core"
)

func TestFactsAreReadAsTheyWereWritten(t *testing.T) {
	for _, want := range []core.Facts{
		{DType: core.BFloat16, WeightDType: core.Float32, Dim: 64, Eps: 1e-5, Offset: 1, Cast: core.CastBeforeWeight,
			Frozen: true},
		{DType: core.Float32, Eps: math.Nextafter(1e-30, 1)},
		{DType: core.Float16, Intermediate: 3, Activation: "silu", Layout: core.PerExpert},
		{DType: core.Float32, Pairing: core.Half, RotaryDim: 8, HeadDim: 16, Heads: 4, KVHeads: 2},
		{DType: core.Float32, Experts: 8, TopK: 2, Routing: core.RoutingAny, Scoring: core.ScoringSigmoid, Bias: true,
			Groups: 2, TopGroups: 1,
			Normalize: true, Scale: 2.5, Vocab: 1<<21 + 1},
	} {
		text, err := FactsText(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadFacts(string(text)); err != nil || got != want {
			t.Errorf("%q was read as %+v, %v", text, got, err)
		}
	}
}

// TestFactsThatCannotBeSaidAreNotSupported: those that one side does not know, and texts that are no line.
func TestFactsThatCannotBeSaidAreNotSupported(t *testing.T) {
	for _, text := range []string{"dtype=float32\nof_later_times=1\n", "dim=4\n", "dtype=float32\ndim=true\n",
		"dtype=float32\nbias=perhaps\n"} {
		if f, err := ReadFacts(text); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%q is read as %+v, %v", text, f, err)
		}
	}
	for _, name := range []string{"gelu\ndim=4", "gelu\x7f"} {
		text, err := FactsText(core.Facts{DType: core.Float32, Activation: name})
		if !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%q is written as %q, %v", name, text, err)
		}
	}
	if Plain("gelu\xff") {
		t.Error("what is no UTF-8 is said to be plain")
	}
}

func FuzzReadFacts(f *testing.F) {
	f.Add("dtype=float32\ndim=64\neps=0.00001\nfrozen=true\n")
	f.Add("eps=1e400\n")
	f.Add("=\n=nan")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		facts, err := ReadFacts(text)
		if err != nil {
			if !errors.Is(err, core.ErrNotSupported) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := FactsText(facts)
		if err != nil {
			return // a text that does not fit a line
		}
		if got, err := ReadFacts(string(again)); err != nil || got != facts {
			t.Errorf("%q was read as %+v, and that as %+v, %v", text, facts, got, err)
		}
	})
}
