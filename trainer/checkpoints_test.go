package trainer_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/models"
)

// evals returns the evaluations of a saved log.
func evals(t *testing.T, out string) []trainer.Eval {
	t.Helper()
	f, err := os.Open(filepath.Join(out, trainer.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []trainer.Eval
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if !bytes.Contains(lines.Bytes(), []byte("eval_loss")) {
			continue
		}
		var e trainer.Eval
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// rising is a run whose held-out loss is at its best after the first evaluation or soon
// after: the learning rate is much too high.
func rising(t *testing.T) *trainer.Job {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	j.Config.LR, j.Config.Warmup, j.Config.Steps = 0.3, 7, 8
	j.Config.Checkpoints = trainer.Checkpoints{SaveEvery: 2, Keep: 1, EvalEvery: 1}
	return j
}

func TestTheBestCheckpointStays(t *testing.T) {
	for _, load := range []bool{false, true} {
		j := rising(t)
		j.Config.Checkpoints.LoadBest = load
		s := run1(t, j)
		all := evals(t, j.Config.Out)
		want := all[1]
		for _, e := range all[2:] {
			if e.Loss < want.Loss {
				want = e
			}
		}
		if len(all) != 9 || want.Step > 5 {
			t.Fatalf("%d evaluations, the best after step %d: the test wants 9 and an early one", len(all), want.Step)
		}
		best := checkpoint.StepDir(j.Config.Out, want.Step)
		if !reflect.DeepEqual(*s.Best, want) || s.BestCheckpoint != best || s.Loaded != load {
			t.Errorf("summary %+v, want the best to be %+v", s, want)
		}
		if steps, err := checkpoint.Steps(j.Config.Out); err != nil || !slices.Equal(steps, []int{want.Step, 8}) {
			t.Errorf("checkpoints %v, %v; want the best and the last, %d and 8", steps, err, want.Step)
		}
		_, weights := result(t, j.Config.Out)
		if _, bests := result(t, best); bytes.Equal(weights, bests) != load {
			t.Errorf("load the best is %v, and the model saved is the best: %v", load, !load)
		}
	}
}

// TestTheBestIsLoadedFromWhereTheRunCameFrom: a run that goes on in another folder has its
// best checkpoint in the first, unless it starts from that, which it then saves as its own.
func TestTheBestIsLoadedFromWhereTheRunCameFrom(t *testing.T) {
	whole := rising(t)
	whole.Config.Checkpoints.LoadBest, whole.Config.Checkpoints.Keep = true, 0
	best := run1(t, whole).Best.Step
	if best >= 6 {
		t.Fatalf("the best is step %d: the test wants an earlier one", best)
	}
	for _, from := range []int{best, 6} {
		j := rising(t)
		j.Config.Checkpoints.LoadBest = true
		var err error
		if j.Resume, err = trainer.OpenCheckpoint(checkpoint.StepDir(whole.Config.Out, from)); err != nil {
			t.Fatal(err)
		}
		where := whole.Config.Out
		if from == best {
			where = j.Config.Out
		}
		if s := run1(t, j); !s.Loaded || s.BestCheckpoint != checkpoint.StepDir(where, best) {
			t.Errorf("from step %d: %+v", from, s)
		}
		_, got := result(t, j.Config.Out)
		if _, want := result(t, whole.Config.Out); !bytes.Equal(got, want) {
			t.Errorf("from step %d: the model saved is not the best", from)
		}
	}
}

// TestABestModelWithoutACheckpointLosesNotTheLast puts something in the way of the best.
func TestABestModelWithoutACheckpointLosesNotTheLast(t *testing.T) {
	whole := rising(t)
	best := run1(t, whole).Best.Step
	j := rising(t)
	j.Config.Checkpoints.LoadBest = true
	j.Hooks.OnStep = endAt(best, func() {
		if err := os.MkdirAll(filepath.Join(checkpoint.StepDir(j.Config.Out, best), "x"), 0o777); err != nil {
			t.Error(err)
		}
	})
	var warnings []error
	j.Hooks.OnWarning = func(err error) { warnings = append(warnings, err) }
	s := run1(t, j)
	if s.Loaded || s.BestCheckpoint != "" || len(warnings) != 2 || !strings.Contains(warnings[1].Error(), "has no checkpoint: the last one is saved instead") {
		t.Errorf("%+v; warnings %v", s, warnings)
	}
	_, got := result(t, j.Config.Out)
	if _, want := result(t, whole.Config.Out); !bytes.Equal(got, want) {
		t.Error("the model saved is not the last")
	}
}

func TestEvaluationsComeWhenAskedFor(t *testing.T) {
	for _, tt := range []struct {
		every, steps int
		want         []int
	}{{0, 7, []int{0, 7}}, {3, 7, []int{0, 3, 6, 7}}, {10, 7, []int{0, 7}}, {0, 40, []int{0, 10, 20, 30, 40}}} {
		j := job(t)
		j.Config.Steps, j.Config.Checkpoints.EvalEvery = tt.steps, tt.every
		run1(t, j)
		var got []int
		for _, e := range evals(t, j.Config.Out) {
			got = append(got, e.Step)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("every %d of %d: evaluations after %v, want %v", tt.every, tt.steps, got, tt.want)
		}
	}
}

// TestACheckpointIsAModelFolder loads one as if it were the result.
func TestACheckpointIsAModelFolder(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	j.Files = []trainer.File{{Name: "tokenizer.json", Data: []byte("{}")}}
	run1(t, j)
	dir := checkpoint.StepDir(j.Config.Out, 7)
	m, err := models.Load(dir, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range m.Params() {
		if !bytes.Equal(p.Tensor.Data, j.Model.Params()[i].Tensor.Data) {
			t.Errorf("%s differs", p.Name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Error(err)
	}
}

// TestACheckpointThatCannotBeSavedDoesNotEndTheRun puts something in its way.
func TestACheckpointThatCannotBeSavedDoesNotEndTheRun(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	j.Config.Checkpoints = trainer.Checkpoints{SaveEvery: 2}
	j.Hooks.OnStep = endAt(4, func() {
		if err := os.MkdirAll(filepath.Join(checkpoint.StepDir(j.Config.Out, 4), "x"), 0o777); err != nil {
			t.Error(err)
		}
	})
	var warnings []error
	j.Hooks.OnWarning = func(err error) { warnings = append(warnings, err) }
	var written []int
	j.Hooks.OnCheckpoint = func(c trainer.Checkpoint) { written = append(written, c.Step) }
	if s := run1(t, j); s.Steps != 7 || !saved(j) {
		t.Errorf("%+v", s)
	}
	if len(warnings) != 1 || !strings.Contains(errors.Join(warnings...).Error(), "step 4: no checkpoint was saved, the run goes on: ") {
		t.Errorf("warnings: %v", warnings)
	}
	if !slices.Equal(written, []int{2, 6, 7}) {
		t.Errorf("checkpoints after %v", written)
	}
}

// TestARunWithoutAStepHasNoCheckpoint, which could not be resumed.
func TestARunWithoutAStepHasNoCheckpoint(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := j.Run(ctx); err != nil || !s.Interrupted || s.Checkpoint != "" {
		t.Errorf("%+v, %v", s, err)
	}
	if steps, err := checkpoint.Steps(j.Config.Out); err != nil || len(steps) > 0 {
		t.Errorf("checkpoints after %v, %v", steps, err)
	}
}

func TestAFailedRunLeavesItsCheckpoints(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	j.Eval = nil
	dies(t, j, 5)
	if got := names(t, j.Config.Out); !slices.Equal(got, []string{"checkpoint-2", "checkpoint-4", journal.File}) {
		t.Errorf("left %v", got)
	}
	j = long(t, filepath.Join(t.TempDir(), "out"))
	dies(t, j, 1)
	if _, err := os.Stat(j.Config.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an output folder without a checkpoint is left: %v", err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestOneRunAtATimeHasAnOutputFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders cannot be locked here")
	}
	j := long(t, filepath.Join(t.TempDir(), "out"))
	var err error
	j.Hooks.OnStep = endAt(3, func() { _, err = resumed(t, long(t, j.Config.Out)).Run(t.Context()) })
	run1(t, j)
	if err == nil || !strings.Contains(err.Error(), "another run is writing to it") {
		t.Errorf("a second run: %v", err)
	}
}

func TestCheckpointFlagsThatMakeNoSense(t *testing.T) {
	for want, c := range map[string]trainer.Checkpoints{
		"trainer.Checkpoints.SaveEvery is -1": {SaveEvery: -1},
		"trainer.Checkpoints.Keep is -1":      {Keep: -1},
		"trainer.Checkpoints.EvalEvery is -1": {EvalEvery: -1},
		"without trainer.Config.Out":          {SaveEvery: 1},
		"Patience is given with":              {Patience: 1, NoEval: true},
		"Threshold is -1":                     {Threshold: -1},
	} {
		config := trainer.Default()
		config.Checkpoints = c
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
