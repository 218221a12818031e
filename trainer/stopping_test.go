package trainer_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/metric"
)

func TestARunStopsWhenEvaluationsBecomeNoBetter(t *testing.T) {
	stopping := func() *trainer.Job {
		j := rising(t)
		j.Config.Out = filepath.Join(t.TempDir(), "out")
		j.Config.Checkpoints.EvalEvery, j.Config.Checkpoints.Patience = 1, 2
		return j
	}
	j := stopping()
	want := run1(t, j)
	if want.Best == nil || !want.Stopped || want.Interrupted || want.Steps != want.Best.Step+2 || want.After == nil ||
		want.After.Step != want.Steps {
		t.Fatalf("%+v, best %+v", want, want.Best)
	}
	// What is resumed is stopped already, and what dies on the way stops where it would have.
	again := resumed(t, func() *trainer.Job { r := stopping(); r.Config.Out = j.Config.Out; return r }())
	if s := run1(t, again); !s.Stopped || s.Steps != want.Steps {
		t.Errorf("resumed after the end: %+v", s)
	}
	killed := stopping()
	out := killed.Config.Out
	dies(t, killed, want.Steps)
	killed = stopping()
	killed.Config.Out = out
	run1(t, resumed(t, killed))
	sameResult(t, out, j.Config.Out)

	patient := stopping()
	patient.Config.Checkpoints.Threshold = 1e9 // only the first evaluation is better
	if s := run1(t, patient); !s.Stopped || s.Steps != 3 {
		t.Errorf("with a threshold that nothing reaches: %+v", s)
	}
	last := stopping()
	last.Config.Checkpoints.Threshold, last.Config.Steps = 1e9, 3
	if s := run1(t, last); s.Stopped || s.Interrupted || s.Steps != 3 {
		t.Errorf("with no steps left to spare: %+v", s)
	}
}

// TestWhatTakesEvaluationsTakesRows: of data with a single row nothing is held out, and a run would never look at what
// it was asked for.
func TestWhatTakesEvaluationsTakesRows(t *testing.T) {
	for field, ask := range map[string]func(c *trainer.Config){
		"Checkpoints.LoadBest": func(c *trainer.Config) { c.Checkpoints.LoadBest = true },
		"Checkpoints.Patience": func(c *trainer.Config) { c.Checkpoints.Patience = 2 },
		"Metric.Name":          func(c *trainer.Config) { c.Metric.Name = metric.TokenAccuracy },
	} {
		j := job(t)
		ask(&j.Config)
		j.Eval = nil
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "trainer."+field+" is given with no rows") {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestTheBestModelIsKeptWithoutCheckpoints(t *testing.T) {
	with, without := rising(t), rising(t)
	with.Config.Checkpoints.LoadBest, without.Config.Checkpoints.LoadBest = true, true
	without.Config.Checkpoints.SaveEvery = 0
	with.Config.Out, without.Config.Out = filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	a, b := run1(t, with), run1(t, without)
	if !a.Loaded || !b.Loaded || b.Best.Step == b.Steps {
		t.Fatalf("%+v and %+v", a, b)
	}
	_, want := result(t, with.Config.Out)
	if _, got := result(t, without.Config.Out); !bytes.Equal(got, want) {
		t.Error("the model saved is not the best")
	}
}

func TestEvaluationsComeByEpochs(t *testing.T) {
	j := job(t)
	j.Train = j.Train.(data.Slice)[:8]
	c := &j.Config
	c.Steps, c.Epochs, c.Checkpoints.EvalEpochs, c.Checkpoints.SaveEpochs, c.Checkpoints.Keep = 0, 2, 0.5, 1, 0
	run1(t, j)
	var got []int
	for _, e := range evals(t, j.Config.Out) {
		got = append(got, e.Step)
	}
	if !slices.Equal(got, []int{0, 2, 4, 6, 8}) { // 8 rows in batches of 2 are 4 steps
		t.Errorf("evaluations after %v", got)
	}
	for _, epoch := range []int{1, 2} {
		r, err := trainer.OpenCheckpoint(checkpoint.StepDir(j.Config.Out, 4*epoch))
		if err != nil || r.State.Epoch != float64(epoch) {
			t.Errorf("the checkpoint of epoch %d: %+v, %v", epoch, r, err)
		}
	}
}

// Half of an epoch of three steps is none of whole steps; two halves are the end of it.
func TestPartsOfEpochsAddUp(t *testing.T) {
	j := job(t)
	j.Train = j.Train.(data.Slice)[:6]
	c := &j.Config
	c.Steps, c.Epochs, c.Checkpoints.EvalEpochs, c.Checkpoints.SaveEpochs, c.Checkpoints.Keep = 0, 3, 0.5, 0.5, 0
	run1(t, j)
	want := []int{2, 3, 5, 6, 8, 9}
	var got []int
	for _, e := range evals(t, j.Config.Out)[1:] {
		got = append(got, e.Step)
	}
	saved, err := checkpoint.Steps(j.Config.Out)
	if err != nil || !slices.Equal(got, want) || !slices.Equal(saved, want) {
		t.Errorf("evaluations after %v, checkpoints after %v, want both after %v (%v)", got, saved, want, err)
	}
}
