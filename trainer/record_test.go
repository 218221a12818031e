package trainer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/journal"
	"github.com/seed98097648/tune/trainer/optim"
)

func journalOf(t *testing.T, out string) *journal.Run {
	t.Helper()
	r, err := journal.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheJournalTellsWhatTheHooksTell(t *testing.T) {
	j := job(t)
	var steps []trainer.Step
	var evals []trainer.Eval
	j.Hooks.OnStep = func(s trainer.Step) { steps = append(steps, s) }
	j.Hooks.OnEval = func(e trainer.Eval) { evals = append(evals, e) }
	run1(t, j)
	r := journalOf(t, j.Config.Out)
	if r.Start.Model != "qwen3_moe" || r.Start.Steps != 4 || r.Start.Rows != j.Train.Len() || !strings.Contains(string(r.Start.Config), `"seq":17`) ||
		r.Start.Memory.Parameters == 0 || r.Start.Environment.Arch == "" || len(r.Start.Sites) == 0 || r.Start.Sites[0].Reason != "kernels are off" {
		t.Errorf("start: %+v", r.Start)
	}
	if len(r.Steps) != 4 || len(r.Evals) != len(evals) || r.End == nil || r.End.Step != 4 || r.End.Error != "" || r.End.Interrupted {
		t.Fatalf("%d steps, %d evaluations, end %+v", len(r.Steps), len(r.Evals), r.End)
	}
	for i, s := range r.Steps {
		if w := steps[i]; s.Step != w.Step || s.Loss != w.Loss || s.LR != w.LR || s.GradNorm != w.GradNorm || s.Tokens != 34 || s.Seconds <= 0 || s.Time.IsZero() {
			t.Errorf("%+v, the hook was told %+v", s, w)
		}
	}
	passes := map[string]int{}
	for _, c := range r.Calls {
		passes[c.Pass] += c.Calls
	}
	if passes["forward"] == 0 || passes["backward"] == 0 || passes["update"] != 4 {
		t.Errorf("calls by pass: %v", passes)
	}
}

// TestTheJournalHasWhatTheOptimizerRemembers: not two numbers for each weight whichever it is.
func TestTheJournalHasWhatTheOptimizerRemembers(t *testing.T) {
	for kind, moments := range map[optim.Kind]int64{optim.AdamW: 2, optim.Lion: 1} {
		j := job(t)
		j.Config.Steps, j.Config.Optimizer.Kind = 1, kind
		run1(t, j)
		if m := journalOf(t, j.Config.Out).Start.Memory; m.Optimizer != moments*m.Parameters {
			t.Errorf("%s: %d bytes beside weights of %d, want %d times as many", kind, m.Optimizer, m.Parameters, moments)
		}
	}
}

// TestTheJournalGoesOnWhenTheRunDoes: one that is killed is resumed, in its own folder and
// in another one.
func TestTheJournalGoesOnWhenTheRunDoes(t *testing.T) {
	dir := t.TempDir()
	begin := func() *trainer.Job {
		j := job(t)
		j.Config.Out, j.Config.Steps, j.Config.Checkpoints.SaveEvery = filepath.Join(dir, "run"), 6, 2
		return j
	}
	whole := begin()
	whole.Config.Out = filepath.Join(dir, "whole")
	run1(t, whole)
	dies(t, begin(), 1)
	dies(t, begin(), 5)
	killed := journalOf(t, filepath.Join(dir, "run"))
	if len(killed.Steps) != 5 || killed.End != nil || killed.Sessions != 1 {
		t.Errorf("%d steps, %d sessions, end %v before resuming", len(killed.Steps), killed.Sessions, killed.End)
	}
	elsewhere := resumed(t, begin())
	elsewhere.Config.Out = filepath.Join(dir, "elsewhere")
	seen := &resumable{}
	elsewhere.Journal = []journal.Sink{seen}
	run1(t, elsewhere)
	if len(seen.Steps) != 6 || seen.Sessions != 2 {
		t.Errorf("a sink of a resumed run has %d steps of %d sessions", len(seen.Steps), seen.Sessions)
	}
	run1(t, resumed(t, begin()))
	want := journalOf(t, whole.Config.Out)
	for _, out := range []string{"run", "elsewhere"} {
		got := journalOf(t, filepath.Join(dir, out))
		if len(got.Steps) != 6 || len(got.Evals) != len(want.Evals) || got.Sessions != 2 || got.Start.Resumed != 4 || got.End == nil {
			t.Fatalf("%s: %d steps, %d evaluations, %d sessions, resumed after %d", out, len(got.Steps), len(got.Evals), got.Sessions, got.Start.Resumed)
		}
		for _, c := range got.Calls { // the killed session had not told
			if c.Pass == "update" && c.Calls != 2 {
				t.Errorf("%s: %d updates since the run was resumed, want 2", out, c.Calls)
			}
		}
		for i := range want.Steps {
			if got.Steps[i].Loss != want.Steps[i].Loss || got.Steps[i].Step != i+1 {
				t.Errorf("%s: step %d has loss %g, want %g", out, got.Steps[i].Step, got.Steps[i].Loss, want.Steps[i].Loss)
			}
		}
	}
}

// resumable is a Sink that follows a run also across a resume.
type resumable struct{ journal.Run }

func (r *resumable) Resume(earlier *journal.Run) { r.Run = *earlier }

func TestAFailedRunLeavesItsJournalWithItsCheckpoints(t *testing.T) {
	j := job(t)
	j.Config.Checkpoints.SaveEvery, j.Config.Steps = 2, 1000
	abort := make(chan struct{})
	j.Abort, j.Hooks.OnStep = abort, endAt(3, func() { close(abort) })
	if _, err := j.Run(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if r := journalOf(t, j.Config.Out); len(r.Steps) != 3 || r.End == nil || !r.End.Interrupted || len(r.Checkpoints) != 1 {
		t.Errorf("%d steps, end %+v", len(r.Steps), r.End)
	}
	j = job(t)
	j.Config.Checkpoints.SaveEvery = 2
	abort = make(chan struct{})
	j.Abort, j.Hooks.OnStep = abort, endAt(1, func() { close(abort) })
	if _, err := j.Run(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(j.Config.Out); err == nil {
		t.Error("a run without checkpoints has left its folder")
	}
}

// TestAJournalThatFailsStopsNoRun: neither one that cannot be opened nor one that is full.
func TestAJournalThatFailsStopsNoRun(t *testing.T) {
	j := job(t)
	j.Config.Checkpoints.SaveEvery = 4
	full := &failing{after: 3}
	j.Journal = []journal.Sink{full}
	var warnings []string
	j.Hooks.OnWarning = func(err error) { warnings = append(warnings, err.Error()) }
	if err := os.MkdirAll(filepath.Join(j.Config.Out, journal.File), 0o777); err != nil {
		t.Fatal(err)
	}
	if s := run1(t, j); s.Steps != 4 || full.n != 4 {
		t.Errorf("%d steps, %d events to a journal that failed at the fourth", s.Steps, full.n)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "keeps no journal") || !strings.Contains(warnings[1], "no space") {
		t.Errorf("warnings: %q", warnings)
	}
}

type failing struct{ n, after int }

func (f *failing) Record(journal.Event) error {
	if f.n++; f.n > f.after {
		return errors.New("no space")
	}
	return nil
}

// TestTheJournalTellsOfFallBacks has a kernel whose plugin is given up in the third step.
func TestTheJournalTellsOfFallBacks(t *testing.T) {
	j := job(t)
	k := &mortal{}
	j.Registry = core.NewRegistry()
	if err := j.Registry.Register(k); err != nil {
		t.Fatal(err)
	}
	j.Hooks.OnStep = func(s trainer.Step) {
		if s.Step == 2 {
			k.health = core.Health{Deaths: 3, Repeats: 2, Fallbacks: 7, LastError: "gone"}
		}
	}
	run1(t, j)
	r := journalOf(t, j.Config.Out)
	if len(r.Incidents) != 1 {
		t.Fatalf("incidents: %+v", r.Incidents)
	}
	i := r.Incidents[0]
	if i.Step != 3 || i.Kernel != "mortal" || i.Deaths != 3 || i.Repeats != 2 || i.Fallbacks != 7 || i.Error != "gone" {
		t.Errorf("%+v", i)
	}
}

// mortal is a kernel of which only the health matters.
type mortal struct{ health core.Health }

func (*mortal) Info() core.Info                            { return core.Info{Name: "mortal", Op: core.RoPE, Backward: true} }
func (*mortal) Supports(core.Facts) error                  { return nil }
func (*mortal) Forward(context.Context, *core.Call) error  { return nil }
func (*mortal) Backward(context.Context, *core.Call) error { return nil }
func (m *mortal) Health() core.Health                      { return m.health }
