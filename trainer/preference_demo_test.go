package trainer_test

import (
	"math"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/lora"
)

// TestEveryStageLearnsThePublishedPreferences: a published model learns the published preferences that it is trained on,
// with adapters. What it makes of others, docs/preferences.md says.
func TestEveryStageLearnsThePublishedPreferences(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "llamafactory")
	model := testdata.Shared(t, "data", "models", "stories260K")
	for stage, lr := range map[string]float64{"dpo": 2e-3, "orpo": 1e-2, "simpo": 5e-3, "kto": 2e-3} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			set, samples := "dpo_en_demo", 16
			if stage == "kto" {
				set, samples = "kto_en_demo", 40 // a few are long enough to be cut, and left out
			}
			c := trainer.Default()
			c.Model, c.LoRA, c.Kernels = model, lora.Config{Rank: 8, Alpha: 16, Targets: []string{lora.AllLinear}}, "none"
			c.Steps, c.Batch, c.Seq, c.LR, c.Preference.Stage, c.CheckEvery = 5, 3, 512, lr, stage, 0
			c.Data = corpus.Config{Paths: []string{set}, Eval: []string{set}, Dir: dir, Template: "alpaca", MaxSamples: samples}
			job, err := trainer.Load(t.Context(), c, autograd.Heap{})
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close()
			s := run1(t, job)
			before, after := s.Before, s.After
			t.Logf("%d rows: loss %.4f -> %.4f, accuracy %.2f -> %.2f", job.Train.Len(), before.Loss, after.Loss, before.Accuracy,
				after.Accuracy)
			if job.Train.Len() < 8 || !(after.Loss < before.Loss) || !(after.Accuracy > before.Accuracy) || after.Accuracy < 0.6 {
				t.Errorf("%d rows: loss %g -> %g, accuracy %g -> %g", job.Train.Len(), before.Loss, after.Loss, before.Accuracy,
					after.Accuracy)
			}
		})
	}
}

// TestAPublishedPromptThatIsThereOnceChangesNoLoss: before any step, a published model gives the published pairs that are
// held out the same losses and rewards, whether a row has each prompt once or twice, and whatever rows they share.
func TestAPublishedPromptThatIsThereOnceChangesNoLoss(t *testing.T) {
	dir := testdata.Shared(t, "data", "datasets", "llamafactory")
	before, places := map[bool]*trainer.Eval{}, map[bool]int{}
	for _, repeat := range []bool{false, true} {
		c := trainer.Default()
		c.Model, c.Kernels = testdata.Shared(t, "data", "models", "stories260K"), "none"
		c.Steps, c.Batch, c.Seq, c.Preference.Stage, c.CheckEvery = 1, 2, 512, "simpo", 0
		c.Data = corpus.Config{Paths: []string{"dpo_en_demo"}, Eval: []string{"dpo_en_demo"}, Dir: dir, Template: "alpaca",
			MaxSamples: 30, RepeatPrompt: repeat}
		job, err := trainer.Load(t.Context(), c, autograd.Heap{})
		if err != nil {
			t.Fatal(err)
		}
		defer job.Close()
		before[repeat] = run1(t, job).Before
		for i := range job.Eval.Len() {
			n, err := data.Length(job.Eval, i)
			if err != nil {
				t.Fatal(err)
			}
			places[repeat] += n
		}
	}
	once, twice := before[false], before[true]
	t.Logf("%d tokens of loss %.7f, with each prompt twice %d of %.7f", places[false], once.Loss, places[true], twice.Loss)
	if places[false] >= places[true] || once.Targets != twice.Targets {
		t.Errorf("%d tokens of %d targets, with each prompt twice %d of %d", places[false], once.Targets, places[true],
			twice.Targets)
	}
	if d := math.Abs(once.Loss - twice.Loss); !(d <= rounding*twice.Loss) {
		t.Errorf("loss %.9g, with each prompt twice %.9g", once.Loss, twice.Loss)
	}
	for name, want := range twice.Named() {
		if got := once.Named()[name]; !(math.Abs(got-want) <= rounding*(1+math.Abs(want))) {
			t.Errorf("%s %.9g, with each prompt twice %.9g", name, got, want)
		}
	}
}
