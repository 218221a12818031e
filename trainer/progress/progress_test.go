package progress_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/progress"
)

// follow runs the hooks of a run of that many steps, with an evaluation before and after.
func follow(h trainer.Hooks, steps int) {
	h.OnStart(trainer.Start{Model: "llama", Parameters: 1_234_567, Trainable: 1_234_567, Rows: 9, EvalRows: 2,
		Steps:  steps,
		Config: trainer.Config{Data: corpus.Config{Paths: []string{"folder/text.txt"}}, Batch: 2, Seq: 50, Accumulate: 3}})
	h.OnEval(trainer.Eval{Step: 0, Loss: math.Log(8), Targets: 5})
	for i := range steps {
		h.OnStep(trainer.Step{Step: i + 1, Loss: 3 / float64(i+1), LR: 1e-4, GradNorm: 1.25, TokensPer: 12_345})
	}
	h.OnEval(trainer.Eval{Step: steps, Loss: math.Log(4), Targets: 5})
}

func show(f progress.Format, steps int) (out, notes string) {
	var o, n bytes.Buffer
	p := progress.New(&o, &n)
	var h trainer.Hooks
	p.Attach(&h, f)
	follow(h, steps)
	p.Summary(&trainer.Summary{Steps: steps, Loss: 1.75, First: trainer.Step{Loss: 3}, Last: trainer.Step{Loss: 0.5},
		Before: &trainer.Eval{Loss: 2.5}, After: &trainer.Eval{Loss: 1.5}, Elapsed: 1234 * time.Millisecond})
	return o.String(), n.String()
}

func TestTextIsLines(t *testing.T) {
	out, notes := show(progress.Text, 2)
	const want = `llama, 1.23M parameters
text.txt: 9 rows of 50 tokens, 2 held out
held-out loss 2.0794 (perplexity 8) before training
step 1/2  loss 3.0000  lr 1.00e-04  grad norm 1.25  12.3k tokens/s
step 2/2  loss 1.5000  lr 1.00e-04  grad norm 1.25  12.3k tokens/s
held-out loss 1.3863 (perplexity 4) after step 2

done: 2 steps in 1.2s, 12.3k tokens/s
  training loss  1.7500, the mean; 3.0000 -> 0.5000
  held-out loss  2.5000 -> 1.5000
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if notes != "" {
		t.Errorf("notes: %q", notes)
	}
}

func TestOneIsSingular(t *testing.T) {
	var out bytes.Buffer
	p := progress.New(&out, &out)
	var h trainer.Hooks
	p.Attach(&h, progress.Text)
	h.OnStart(trainer.Start{Rows: 1, Steps: 1, Config: trainer.Config{Seq: 8}})
	p.Summary(&trainer.Summary{Steps: 1})
	for _, want := range []string{": 1 row of 8 tokens", "done: 1 step in 0s\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestAdaptersAreCountedApart(t *testing.T) {
	var out bytes.Buffer
	var h trainer.Hooks
	progress.New(&out, &out).Attach(&h, progress.Text)
	h.OnStart(trainer.Start{Model: "llama", Parameters: 1_234_567, Trainable: 4_321})
	if want := "llama, 1.23M parameters, 4.32k of them trained\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got %q, want %q first", out.String(), want)
	}
}

func TestMixedPrecisionIsSaid(t *testing.T) {
	var out bytes.Buffer
	var h trainer.Hooks
	progress.New(&out, &out).Attach(&h, progress.Text)
	h.OnStart(trainer.Start{Model: "llama", Parameters: 9, Trainable: 9, Config: trainer.Config{Precision: "bf16"}})
	if want := "llama, 9 parameters, products in bfloat16\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got %q, want %q first", out.String(), want)
	}
}

func TestAResumedRunTellsWhatItDidAndWhichStepWasBest(t *testing.T) {
	for _, tt := range []struct {
		sum  trainer.Summary
		want string
	}{
		{trainer.Summary{Best: &trainer.Eval{Step: 4, Loss: 1.5}, BestCheckpoint: "out/checkpoint-4"},
			"  best           1.5000 after step 4: out/checkpoint-4\n"},
		{trainer.Summary{Best: &trainer.Eval{Step: 4, Loss: 1.5}, BestCheckpoint: "out/checkpoint-4", Loaded: true},
			"  best           1.5000 after step 4: this model is saved\n"},
		{trainer.Summary{}, ""},
	} {
		var out bytes.Buffer
		p := progress.New(&out, &out)
		var h trainer.Hooks
		p.Attach(&h, progress.Text)
		h.OnStart(trainer.Start{Model: "llama", Steps: 6, Resumed: 4})
		tt.sum.Steps, tt.sum.Elapsed = 6, time.Second
		p.Summary(&tt.sum)
		want := "going on after step 4 of 6\n\ndone: 6 steps, 2 of them now, in 1s\n  training loss  0.0000, the mean; " +
			"0.0000 -> 0.0000\n" + tt.want
		if _, got, _ := strings.Cut(out.String(), "held out\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestASummaryBeginsWithHowFarTheRunCame(t *testing.T) {
	for _, tt := range []struct {
		sum     trainer.Summary
		resumed int
		want    string
	}{
		{trainer.Summary{}, 0, "done: 5 steps in 1s"},
		{trainer.Summary{}, 2, "done: 5 steps, 3 of them now, in 1s"},
		{trainer.Summary{Interrupted: true}, 0, "interrupted: 5 of 6 steps in 1s"},
		{trainer.Summary{Interrupted: true, TimeUp: true}, 2, "the time is up: 5 of 6 steps, 3 of them now, in 1s"},
		{trainer.Summary{Stopped: true}, 0, "stopped early: 5 of 6 steps, no better evaluation any more, in 1s"},
		{trainer.Summary{Stopped: true}, 2,
			"stopped early: 5 of 6 steps, no better evaluation any more, 3 of them now, in 1s"},
	} {
		var out bytes.Buffer
		p := progress.New(&out, &out)
		var h trainer.Hooks
		p.Attach(&h, progress.Text)
		h.OnStart(trainer.Start{Model: "llama", Steps: 6, Resumed: tt.resumed})
		tt.sum.Steps, tt.sum.Elapsed = 5, time.Second
		if p.Summary(&tt.sum); !strings.Contains(out.String(), "\n"+tt.want+"\n") {
			t.Errorf("got\n%s\nwant %s", &out, tt.want)
		}
	}
}

func TestLongRunsShowSomeSteps(t *testing.T) {
	for _, tt := range []struct{ steps, min, max int }{{1, 1, 1}, {20, 20, 20}, {21, 11, 22}, {39, 20, 22}, {250, 18, 22},
		{100_000, 20, 22}} {
		t.Run(fmt.Sprint(tt.steps), func(t *testing.T) {
			out, _ := show(progress.Text, tt.steps)
			if n := strings.Count(out, "\nstep "); n < tt.min || n > tt.max {
				t.Errorf("%d lines for %d steps, want %d to %d", n, tt.steps, tt.min, tt.max)
			}
			for _, step := range []int{1, tt.steps} {
				if want := fmt.Sprintf("step %*d/%d ", len(fmt.Sprint(tt.steps)), step, tt.steps); !strings.Contains(out, want) {
					t.Errorf("no line for step %d of %d", step, tt.steps)
				}
			}
			for line := range strings.Lines(out) {
				if len(line) > 81 {
					t.Errorf("a line has more than 80 columns: %s", line)
				}
			}
		})
	}
}

func TestJSONIsStepsAndNothingElse(t *testing.T) {
	out, notes := show(progress.JSON, 50)
	n := 0
	for line := range strings.Lines(out) {
		n++
		var got map[string]float64
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		want := map[string]float64{"step": float64(n), "loss": 3 / float64(n), "lr": 1e-4, "grad_norm": 1.25,
			"tokens_per_s": 12_345}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("line %d is %v, want %v", n, got, want)
		}
	}
	if n != 50 {
		t.Errorf("%d lines for 50 steps", n)
	}
	for _, want := range []string{"9 rows", "after step 50", "done: 50 steps"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
	}
}

func TestHooksThatAreSetAreStillCalled(t *testing.T) {
	var steps, evals int
	h := trainer.Hooks{OnStep: func(trainer.Step) { steps++ }, OnEval: func(trainer.Eval) { evals++ }}
	progress.New(&bytes.Buffer{}, &bytes.Buffer{}).Attach(&h, progress.Text)
	follow(h, 4)
	if steps != 4 || evals != 2 {
		t.Errorf("the first hooks saw %d steps and %d evaluations, want 4 and 2", steps, evals)
	}
}

func TestSummaryOfAnInterruptedRun(t *testing.T) {
	var out bytes.Buffer
	p := progress.New(&out, &bytes.Buffer{})
	var h trainer.Hooks
	p.Attach(&h, progress.Text)
	h.OnStart(trainer.Start{Steps: 9})
	p.Summary(&trainer.Summary{Interrupted: true})
	if !strings.HasSuffix(out.String(), "\ninterrupted: 0 of 9 steps in 0s\n") {
		t.Errorf("got %q", out.String())
	}
}

// TestASummarySaysThatNothingWasChecked where kernels were used without the comparison, which is
// otherwise counted.
func TestASummarySaysThatNothingWasChecked(t *testing.T) {
	const line = "  checked        no kernel: that is turned off\n"
	used := &core.Report{Actions: []core.Action{{Kernel: noKernel{}}}}
	for name, tt := range map[string]struct {
		every  int
		report *core.Report
		want   bool
	}{
		"never":      {0, used, true},
		"at times":   {1000, used, false},
		"no kernels": {0, nil, false},
		"none fits":  {0, &core.Report{Actions: []core.Action{{}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := progress.New(&out, &out)
			var h trainer.Hooks
			p.Attach(&h, progress.Text)
			h.OnStart(trainer.Start{Steps: 1, Config: trainer.Config{CheckEvery: tt.every}})
			p.Summary(&trainer.Summary{Steps: 1, Report: tt.report})
			if got := strings.Contains(out.String(), line); got != tt.want {
				t.Errorf("it says that nothing was checked: %v, want %v\n%s", got, tt.want, &out)
			}
		})
	}
}

// noKernel is one that is only named.
type noKernel struct{ core.Kernel }

func (noKernel) Info() core.Info { return core.Info{Name: "k"} }

// TestASecondEvaluationBeforeTrainingSaysWhy there is one.
func TestASecondEvaluationBeforeTrainingSaysWhy(t *testing.T) {
	var out bytes.Buffer
	var h trainer.Hooks
	progress.New(&out, &out).Attach(&h, progress.Text)
	h.OnEval(trainer.Eval{})
	h.OnEval(trainer.Eval{})
	const want = "held-out loss 0.0000 (perplexity 1) before training\nheld-out loss 0.0000 (perplexity 1) before " +
		"training, again: without what was taken off\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}
