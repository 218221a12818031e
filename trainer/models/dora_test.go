package models_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// TestDoRABeginsAsTheModelIsSavedAndMerged: fresh magnitudes change the logits by rounding alone, also on bases that
// are quantised; what is saved loads again as it was; and merged weights give what adapters gave.
func TestDoRABeginsAsTheModelIsSavedAndMerged(t *testing.T) {
	for _, name := range types() {
		dir := stored(t, name, core.Float32)
		c := lora.Config{Rank: 3, DoRA: true}
		for _, layer := range newModel(t, family(name), 1).Targets() {
			if strings.Contains(layer.Name, ".self_attn.") {
				c.Targets = append(c.Targets, layer.Name)
			}
		}
		for _, base := range []lora.Config{{}, {BaseInt8: true}, {BaseNF4: true}} {
			with, without := c, lora.Config{Rank: 1}
			with.BaseInt8, with.BaseNF4 = base.BaseInt8, base.BaseNF4
			without.BaseInt8, without.BaseNF4 = base.BaseInt8, base.BaseNF4
			want, _ := evaluate(t, loadWith(t, dir, models.LoadOptions{LoRA: without}))
			got, _ := evaluate(t, loadWith(t, dir, models.LoadOptions{LoRA: with}))
			if d := distance(got, want); d > 1e-5 {
				t.Errorf("%s, %s: the logits differ by %.3g before training", name, base.Base(), d)
			}
		}
		m := loadWith(t, dir, models.LoadOptions{LoRA: c})
		scatter(m)
		want, _ := evaluate(t, m)
		again := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saveAdapter(t, m)}})
		if got, _ := evaluate(t, again); !slices.Equal(got, want) {
			t.Errorf("%s: the logits differ by %.3g once it was saved", name, distance(got, want))
		}
		before := named(t, load(t, dir))
		if d, loss := merged(t, m, before); d > 1e-5 || loss > 1e-5 {
			t.Errorf("%s: merged, the logits differ by %.3g and the loss by %.3g", name, d, loss)
		}
	}
}
