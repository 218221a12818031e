package models_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// stir adds random numbers to adapters, as training does.
func stir(m *models.Model) {
	rng := rand.New(rand.NewPCG(9, 0))
	for _, p := range m.Trainable() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] += 0.1 * float32(rng.NormFloat64())
		}
		p.Written()
	}
}

// TestPiSSABeginsAsTheModelIsSavedAndMerged: a weight without its principal part and an adapter that is it give what
// the model gave; what is saved does on the files' own weights what was trained; a run that goes on has its bits; and
// merged weights give what adapters gave.
func TestPiSSABeginsAsTheModelIsSavedAndMerged(t *testing.T) {
	for _, name := range types() {
		for _, rs := range []bool{false, true} {
			dir, c := stored(t, name, core.Float32), lora.Config{Rank: 3, Init: lora.PiSSA, RSLoRA: rs}
			want, _ := evaluate(t, load(t, dir))
			m := loadWith(t, dir, models.LoadOptions{LoRA: c})
			if got, _ := evaluate(t, m); !(distance(got, want) <= 1e-5) {
				t.Errorf("%s: the logits differ by %.3g before training", name, distance(got, want))
			}
			stir(m)
			trained, _ := evaluate(t, m)
			if d := distance(trained, want); d < 1e-3 {
				t.Fatalf("%s: the trained adapter changes the logits by %.3g alone", name, d)
			}
			on := m.Adapter.Off()
			if off, _ := evaluate(t, m); !(distance(off, want) <= 1e-5) {
				t.Errorf("%s: switched off, the logits differ from the model's by %.3g", name, distance(off, want))
			}
			on()
			saved := saveAdapter(t, m)
			plain := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saved}})
			if got, _ := evaluate(t, plain); !(distance(got, trained) <= 1e-5) {
				t.Errorf("%s: saved, it gives logits that differ by %.3g", name, distance(got, trained))
			}
			c.Start = saved
			next := loadWith(t, dir, models.LoadOptions{LoRA: c})
			if err := next.Adapter.Read(saved); err != nil {
				t.Fatal(err)
			}
			if got, _ := evaluate(t, next); !slices.Equal(got, trained) {
				t.Errorf("%s: the run that goes on has logits that differ by %.3g", name, distance(got, trained))
			}
			before := named(t, load(t, dir))
			if d, loss := merged(t, plain, before); !(d <= 1e-5) || !(loss <= 1e-5) {
				t.Errorf("%s: merged, the logits differ by %.3g and the loss by %.3g", name, d, loss)
			}
		}
	}
}

// TestPiSSAOnANarrowBaseIsNearerToTheModel: what is quantised is smaller without the principal part, and so is the
// error, in the mean over all families.
func TestPiSSAOnANarrowBaseIsNearerToTheModel(t *testing.T) {
	for _, base := range []lora.Config{{BaseInt8: true}, {BaseNF4: true}} {
		sum := map[string]float64{}
		for _, name := range types() {
			dir := stored(t, name, core.BFloat16)
			want, _ := evaluate(t, load(t, dir))
			for _, init := range []string{"", lora.PiSSA} {
				c := base
				c.Rank, c.Init = 4, init
				got, _ := evaluate(t, loadWith(t, dir, models.LoadOptions{LoRA: c}))
				sum[init] += distance(got, want)
			}
		}
		if sum[lora.PiSSA] >= sum[""] || sum[lora.PiSSA] == 0 {
			t.Errorf("%s: the logits differ by %.3g in all, without PiSSA by %.3g", base.Base(), sum[lora.PiSSA], sum[""])
		}
	}
}

// TestPiSSAIsRefusedWhereItCannotBe: too large a rank, other numbers than a run began with, and weights that were
// never read.
func TestPiSSAIsRefusedWhereItCannotBe(t *testing.T) {
	dir := stored(t, "llama", core.Float32)
	fails := func(what, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", what, err, want)
		}
	}
	_, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Rank: 1000, Init: lora.PiSSA}})
	fails("a large rank", "give a smaller rank", err)
	c := lora.Config{Rank: 2, Init: lora.PiSSA}
	first := loadWith(t, dir, models.LoadOptions{LoRA: c})
	saved := saveAdapter(t, first)
	other := loadWith(t, stored(t, "llama", core.BFloat16), models.LoadOptions{LoRA: c})
	fails("another model", "lora.Config.Start", other.Adapter.Read(saved))
	c.Rank = 3
	fails("another rank", "r 4, lora_alpha 8", loadWith(t, dir, models.LoadOptions{LoRA: c}).Adapter.Read(saved))
	m, err := models.Shape(dir, autograd.Heap{}, models.LoadOptions{LoRA: c})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Saved()
	fails("a shape", "have not begun", err)
}
