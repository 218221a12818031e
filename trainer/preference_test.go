package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// preferences are rows in which good answers count up and bad ones down: pairs of both, or with marked one of them
// beside the answer to another prompt.
func preferences(t *testing.T, marked bool) data.Slice {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	store := data.NewStore()
	answer := func(role data.Role, first, step int) data.Part {
		p := data.Part{Role: role}
		for i := range 3 + 3 + rng.IntN(4) {
			id := 2 + i
			if i >= 3 {
				id = (64 + first + step*i) % 64
			}
			p.IDs, p.Learn = append(p.IDs, int32(id)), append(p.Learn, i >= 3)
		}
		return p
	}
	var all []int
	for i := range 24 {
		first := 10 + rng.IntN(40)
		a, b := answer(data.Chosen, first, 1), answer(data.Rejected, first, -1)
		if marked && i%2 == 1 {
			a = b
		}
		if marked {
			b = answer(data.Mismatched, rng.IntN(64), 1-2*(i%2))
		}
		if err := store.AddPair(a, b, data.Common(a, b)); err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	packed, err := data.NewPacked(store, 40, 0)
	if err != nil {
		t.Fatal(err)
	}
	packed.BestFit(all)
	var rows data.Slice
	for i := range packed.Len() {
		row, err := packed.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// preferring makes a job one of training on preferences.
func preferring(t *testing.T, j *trainer.Job, c preference.Config) {
	t.Helper()
	c.Beta, c.Gamma, c.ChosenWeight, c.RejectedWeight = 0.3, 0.5, 1, 1
	all := preferences(t, c.Marked())
	j.Config.Preference, j.Config.Seq, j.Train, j.Eval = c, 40, all[2:], all[:2]
}

func TestEveryLossOfPreferencesIsLearned(t *testing.T) {
	for _, c := range []preference.Config{{Stage: preference.DPO}, {Stage: preference.DPO, Loss: preference.IPO},
		{Stage: preference.DPO, Loss: preference.Hinge}, {Stage: preference.DPO, Smoothing: 0.1, FTX: 0.1}, {Stage: preference.ORPO},
		{Stage: preference.SimPO}, {Stage: preference.KTO}} {
		t.Run(c.Stage+" "+c.Loss, func(t *testing.T) {
			j := job(t)
			preferring(t, j, c)
			j.Config.Steps, j.Config.LR, j.Config.Accumulate = 16, 3e-3, 2
			var first, last trainer.Step
			j.Hooks.OnStep = func(s trainer.Step) {
				if last = s; s.Step == 1 {
					first = s
				}
			}
			s := run1(t, j)
			if !(s.After.Loss < s.Before.Loss) {
				t.Errorf("held-out loss %g -> %g", s.Before.Loss, s.After.Loss)
			}
			if b, a := s.Before.Metrics, s.After.Metrics; !(a.Accuracy > b.Accuracy) || !(*a.Margin > *b.Margin) {
				t.Errorf("before %+v, after %+v", *b, *a)
			}
			if c.NeedsReference() && (*first.Metrics.Chosen != 0 || *first.Metrics.Margin != 0) {
				t.Errorf("before the first step the model is not its own reference: %+v", *first.Metrics)
			}
			if last.Metrics.Accuracy < 0.9 {
				t.Errorf("the last step has %+v", *last.Metrics)
			}
		})
	}
}

// TestAnEvaluationDoesNotDependOnItsBatches: ORPO's loss is a mean over pairs and one over tokens, of which batches have
// other shares.
func TestAnEvaluationDoesNotDependOnItsBatches(t *testing.T) {
	c := preference.Default()
	c.Stage = preference.ORPO
	all := pairsOf(t, true, true, false)
	want := 0.0
	for _, batch := range []int{len(all), 1, 3} {
		m, err := models.New([]byte(llamaOf), autograd.Heap{})
		if err != nil {
			t.Fatal(err)
		}
		m.Init(1)
		e, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: batch, Seq: len(all[0].IDs),
			Optim: optim.DefaultConfig(), Preference: c})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		got, _, err := e.Evaluate(t.Context(), data.Batches(all, batch))
		if err != nil {
			t.Fatal(err)
		}
		if batch == len(all) {
			s, err := e.Step(t.Context(), slices.Collect(data.Batches(all, batch)), 0)
			if want = s.Loss; err != nil {
				t.Fatal(err)
			}
		}
		if !(math.Abs(got-want) <= rounding*want) {
			t.Errorf("in batches of %d the loss is %.9g, that of a step %.9g", batch, got, want)
		}
	}
}

// TestTheReferenceOfATrainedAdapterIsTheModelWithoutIt computes that model by itself.
func TestTheReferenceOfATrainedAdapterIsTheModelWithoutIt(t *testing.T) {
	dir := tinyFolder(t)
	c := preference.Default()
	c.Stage = preference.DPO
	all := preferences(t, false)
	metrics := func(adapted, trained bool) *preference.Metrics {
		o := models.LoadOptions{Seed: 2}
		if adapted {
			o.LoRA = lora.Config{Rank: 2}
		}
		m, err := models.LoadWith(dir, autograd.Heap{}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Trainable() {
			if strings.Contains(p.Name, "lora_B") {
				for i := range p.Tensor.Float32s() {
					p.Tensor.Float32s()[i] = 0.1
				}
			}
		}
		e, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: len(all), Seq: 40, Optim: optim.DefaultConfig(),
			Preference: c, Trained: trained})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if n, err := e.Refer(t.Context(), all); n != 1 || err != nil {
			t.Fatalf("%d batches, %v", n, err)
		}
		for batch := range data.Batches(all, len(all)) {
			s, err := e.Step(t.Context(), []data.Batch{batch}, 0)
			if err != nil {
				t.Fatal(err)
			}
			return s.Metrics
		}
		return nil
	}
	base, own, off := metrics(false, false), metrics(true, false), metrics(true, true)
	if *own.Chosen != 0 || *off.Chosen == 0 || *off.ChosenLogProb != *own.ChosenLogProb {
		t.Errorf("with an adapter %+v, of one that was trained %+v", *own, *off)
	}
	if d := *off.ChosenLogProb - *off.Chosen/c.Beta - *base.ChosenLogProb; !(math.Abs(d) <= 1e-4) {
		t.Errorf("the reference differs from the model without the adapter by %g", d)
	}
}

func TestTheReferenceIsKeptInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ref.json")
	with := func(out string) *trainer.Job {
		j := job(t)
		preferring(t, j, preference.Config{Stage: preference.DPO, RefCache: path})
		j.Config.Out = filepath.Join(t.TempDir(), out)
		return j
	}
	want := run1(t, with("first"))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	got := run1(t, with("second"))
	if after, err := os.Stat(path); err != nil || !after.ModTime().Equal(info.ModTime()) {
		t.Errorf("the file was written again: %v", err)
	}
	if got.Last.Loss != want.Last.Loss {
		t.Errorf("losses %g and %g", got.Last.Loss, want.Last.Loss)
	}
	other := with("third")
	other.Config.Precision = models.BF16
	if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ref.json is of another model") {
		t.Errorf("error %v", err)
	}
	for _, damage := range []string{"{", `{"version": 7}`} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := with("fourth").Run(t.Context()); err == nil || !strings.Contains(err.Error(), "preference.Config.RefCache") {
			t.Errorf("%s: error %v", damage, err)
		}
	}
}

// watchedRows tells of each row that is read.
type watchedRows struct {
	data.Rows
	read func()
}

func (w watchedRows) Row(i int) (data.Row, error) {
	w.read()
	return w.Rows.Row(i)
}

// TestAnInterruptKeepsWhatTheReferenceGave: it comes after all rows to train on, in the middle of those held out, and
// the next run goes on from there.
func TestAnInterruptKeepsWhatTheReferenceGave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ref.json")
	reads, last := 0, 0
	with := func(cache string, read func()) *trainer.Job {
		j := job(t)
		preferring(t, j, preference.Config{Stage: preference.DPO, RefCache: cache})
		j.Eval = watchedRows{j.Eval, read}
		return j
	}
	whole := with(path+".whole", func() { reads++ })
	whole.Hooks.OnStart = func(trainer.Start) { last = reads }
	run1(t, whole)
	ctx, cancel := context.WithCancel(t.Context())
	reads = 0
	cut := with(path, func() {
		if reads++; reads == last {
			cancel()
		}
	})
	var told error
	cut.Hooks.OnWarning = func(err error) { told = err }
	if _, err := cut.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if told == nil || !strings.Contains(told.Error(), path+".partial") {
		t.Errorf("it is said that %v", told)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what lacks answers has the name of what has all: %v", err)
	}
	answers := func(path string) (file map[string]any, answers map[string]any) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file, file["log_probs"].(map[string]any)
	}
	_, all := answers(path + ".whole")
	file, some := answers(path + ".partial")
	if len(some) == 0 || len(some) >= len(all) {
		t.Fatalf("%d answers of %d are kept", len(some), len(all))
	}
	for key := range some {
		some[key] = -1.0 // not what the model gives
	}
	text, err := json.Marshal(file)
	if err == nil {
		err = os.WriteFile(path+".partial", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run1(t, with(path, func() {}))
	_, got := answers(path)
	kept := 0
	for key, want := range all {
		if _, was := some[key]; was && got[key] == -1.0 { // not one that is in a batch with others that were lacking
			kept++
		} else if got[key] != want {
			t.Errorf("answer %s has %v, want %v", key, got[key], want)
		}
	}
	if kept == 0 {
		t.Error("what was begun means nothing")
	}
	if _, err := os.Stat(path + ".partial"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was begun is still there: %v", err)
	}
}

// TestACacheChangesNothingOfARunThatGoesOn: another run may have written it anew, with other kernels or batches.
func TestACacheChangesNothingOfARunThatGoesOn(t *testing.T) {
	with := func(cache string) *trainer.Job {
		j := job(t)
		preferring(t, j, preference.Config{Stage: preference.DPO, RefCache: cache})
		j.Config.Checkpoints.SaveEvery = 2
		return j
	}
	whole := with("")
	want := run1(t, whole)
	from := checkpoint.StepDir(whole.Config.Out, 2)
	text, err := os.ReadFile(filepath.Join(from, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	answers := file["log_probs"].(map[string]any)
	for key, p := range answers {
		answers[key] = p.(float64) / 2
	}
	if text, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "ref.json")
	if err := os.WriteFile(cache, text, 0o600); err != nil {
		t.Fatal(err)
	}
	again := with(cache)
	if again.Resume, err = trainer.OpenCheckpoint(from); err != nil {
		t.Fatal(err)
	}
	if got := run1(t, again); got.Last.Loss != want.Last.Loss {
		t.Errorf("the last loss is %g, want %g", got.Last.Loss, want.Last.Loss)
	}
	other := with(cache) // which is used by a run that starts
	if got := run1(t, other); got.First.Loss == want.First.Loss {
		t.Error("the file's numbers mean nothing")
	}
}

// TestTheReferenceIsNotOfAKernelThatWasTakenOff, which was right when it was compared, then wrong, and then gave what is not
// finite.
func TestTheReferenceIsNotOfAKernelThatWasTakenOff(t *testing.T) {
	calls := 0
	late := &faulty{Kernel: reference.Kernel(core.RMSNorm), name: "late", fault: func(c *core.Call) {
		if c.Site != "layers.0.input_layernorm" || c.Pass != core.Forward {
			return
		}
		y := c.Output("y").Float32s()
		if calls++; calls == 2 {
			double(c, "y")
		} else if calls > 2 {
			y[0] = float32(math.NaN())
		}
	}}
	j := checkedJob(t, autograd.Heap{}, "late", nil, late)
	preferring(t, j, preference.Config{Stage: preference.DPO})
	j.Config.Batch = 1
	var first trainer.Step
	j.Hooks.OnStep = func(s trainer.Step) {
		if s.Step == 1 {
			first = s
		}
	}
	s := run1(t, j)
	if calls < 3 || len(s.Wrong) != 1 {
		t.Errorf("%d calls, found wrong: %v", calls, s.Wrong)
	}
	if m := s.Before.Metrics; *m.Chosen != 0 || *m.Rejected != 0 || *first.Metrics.Chosen != 0 || *first.Metrics.Rejected != 0 {
		t.Errorf("the model is not its own reference: %+v, %+v", *m, *first.Metrics)
	}
}

func TestRowsOfTheOtherKindAreRefused(t *testing.T) {
	j := job(t)
	j.Config.Preference.Stage = preference.ORPO
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the rows have answers to follow") {
		t.Errorf("error %v", err)
	}
}
