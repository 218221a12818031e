package models_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
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
			if d := distance(got, want); !(d <= 1e-5) {
				t.Errorf("%s, %s: the logits differ by %.3g before training", name, base.Base(), d)
			}
		}
		m := loadWith(t, dir, models.LoadOptions{LoRA: c})
		scatter(m)
		want, _ := evaluate(t, m)
		plain, _ := evaluate(t, load(t, dir))
		on := m.Adapter.Off()
		if off, _ := evaluate(t, m); !(distance(off, plain) <= 1e-5) {
			t.Errorf("%s: switched off, the logits differ from the model's by %.3g", name, distance(off, plain))
		}
		on()
		if got, _ := evaluate(t, m); !slices.Equal(got, want) {
			t.Errorf("%s: switched on again, the logits differ by %.3g", name, distance(got, want))
		}
		again := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saveAdapter(t, m)}})
		if got, _ := evaluate(t, again); !slices.Equal(got, want) {
			t.Errorf("%s: the logits differ by %.3g once it was saved", name, distance(got, want))
		}
		before := named(t, load(t, dir))
		if d, loss := merged(t, m, before); !(d <= 1e-5) || !(loss <= 1e-5) {
			t.Errorf("%s: merged, the logits differ by %.3g and the loss by %.3g", name, d, loss)
		}
	}
}

// TestWhatAFolderCannotSayIsRefusedBeforeTraining: an adapter's folder has whole modules, and new tokens have rows
// that are trained.
func TestWhatAFolderCannotSayIsRefusedBeforeTraining(t *testing.T) {
	dir := stored(t, "qwen2", core.Float32)
	size := newModel(t, family("qwen2"), 1).Vocab()
	for want, o := range map[string]models.LoadOptions{
		"would be trained as it is, but for its weight": {LoRA: lora.Config{Rank: 1, Targets: []string{"o_proj"}},
			Train: models.Selection{Modules: []string{"q_proj.bias"}}},
		"model.embed_tokens.weight is not trained": {Vocabulary: models.Vocabulary{Known: size, Tokens: size + 1},
			Train: models.Selection{Freeze: []string{"embed_tokens"}}},
	} {
		if _, err := models.LoadWith(dir, autograd.Heap{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	whole := models.LoadOptions{LoRA: lora.Config{Rank: 1, Targets: []string{"o_proj"}},
		Train: models.Selection{Modules: []string{"q_proj"}}}
	loadWith(t, dir, whole)
}
