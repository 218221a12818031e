package main

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/lora"
)

// TestFieldsInErrorsBecomeFlags: of every field that an error can name, train or generate
// has the flag, except for one that is a flag's absence.
func TestFieldsInErrorsBecomeFlags(t *testing.T) {
	a := &app{}
	train, write := a.trainCommand().Flags, a.generateCommand().Flags
	for field, flag := range flagNames() {
		name := strings.TrimPrefix(flag, "--")
		if train.Lookup(name) == nil && write.Lookup(name) == nil {
			t.Errorf("%s became %s, which is no flag", field, flag)
		}
	}
}

func TestErrorsOfAConfigurationAreToldByFlags(t *testing.T) {
	below := -1.0
	c := trainer.Default()
	c.Steps, c.Batch, c.Seq, c.Accumulate, c.LR, c.Threads, c.Schedule = -1, -1, 1, -1, math.NaN(), -1, "stairs"
	c.Warmup, c.WarmupRatio, c.Beta1, c.Beta2, c.Epsilon, c.WeightDecay, c.Clip, c.CheckEvery = -1, 2, 1, 1, -1, -1, -1,
		-1
	c.Checkpoints = trainer.Checkpoints{SaveEvery: -1, Keep: -1, EvalEvery: -1, LoadBest: true, NoEval: true}
	c.LoRA = lora.Config{Rank: -1, Alpha: -1, Dropout: 2, Targets: []string{""}, PlusRatio: -1, BaseInt8: true}
	c.Data.EvalSize = &below
	s := generate.Sampling{Temperature: -1, TopK: -1, TopP: 2, MinP: 2, RepetitionPenalty: -1}
	told := flagged(errors.Join(c.Validate(), s.Validate()).Error())
	for line := range strings.Lines(told) {
		if !strings.HasPrefix(line, "--") && !strings.Contains(line, " --") || fieldName.MatchString(line) {
			t.Errorf("an error is not told by flags: %s", line)
		}
	}
	for _, want := range []string{"--batch is -1, must be positive", "--grad-accum is -1", "--keep is -1",
		"--lora-rank is -1", "--eval-size is -1", "--top-k is -1"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s", want, told)
		}
	}
}
