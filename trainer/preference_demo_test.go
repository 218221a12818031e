package trainer_test

import (
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
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
			set := map[string]string{"kto": "kto_en_demo"}[stage]
			if set == "" {
				set = "dpo_en_demo"
			}
			c := trainer.Default()
			c.Model, c.LoRA, c.Kernels = model, lora.Config{Rank: 8, Alpha: 16, Targets: []string{lora.AllLinear}}, "none"
			c.Steps, c.Batch, c.Seq, c.LR, c.Preference.Stage, c.CheckEvery = 16, 4, 512, lr, stage, 0
			c.Data = corpus.Config{Paths: []string{set}, Eval: []string{set}, Dir: dir, Template: "alpaca", MaxSamples: 40}
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
