package trainer_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/demo"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/metric"
)

// drilled is the built-in example, not trained to its end, with a metric.
func drilled(t *testing.T, name metric.Name, steps int) *demo.Demo {
	t.Helper()
	given := map[string]bool{"steps": true, "batch": true}
	c := trainer.Default()
	c.Kernels, c.Steps, c.Batch = "none", steps, 32
	c = demo.Config(c, func(flag string) bool { return given[flag] })
	c.Metric.Name, c.Out, c.Checkpoints.EvalEvery = name, filepath.Join(t.TempDir(), "out"), steps/2
	d, err := demo.New(c, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// predictions reads the file of an evaluation.
func predictions(t *testing.T, out string, step int) (all []metric.Prediction) {
	t.Helper()
	f, err := os.Open(filepath.Join(out, trainer.PredictionsDir, fmt.Sprintf("step-%d.jsonl", step)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var p metric.Prediction
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestExactMatchIsThatOfTheAnswers compares with what a session writes, one answer after another.
func TestExactMatchIsThatOfTheAnswers(t *testing.T) {
	d := drilled(t, metric.ExactMatch, 150)
	var told trainer.Work
	d.Job.Hooks.OnWork = func(w trainer.Work) { told = w }
	s := run1(t, d.Job)
	score, err := d.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if score.Right < 1 || score.Right == score.Total {
		t.Fatalf("%d of %d right: the test needs a model that knows some", score.Right, score.Total)
	}
	want := float64(score.Right) / float64(score.Total)
	if got := s.After.Scores["exact_match"]; got != want {
		t.Errorf("exact_match %g, want %g", got, want)
	}
	all := predictions(t, s.Out, s.Steps)
	if want := (trainer.Work{What: "answering", Done: score.Total, Total: score.Total}); told != want {
		t.Errorf("it is told last that %+v, want %+v", told, want)
	}
	if len(all) != score.Total {
		t.Fatalf("%d predictions, want %d", len(all), score.Total)
	}
	for i, a := range score.Answers {
		p := all[i]
		if p.Prompt != "<s>"+a.Prompt || p.Expected != a.Want || a.Right != (p.Score == 1) || a.Right && p.Generated != a.Got {
			t.Errorf("%+v, want %+v", p, a)
		}
	}
	for _, e := range evals(t, s.Out) {
		if n := len(predictions(t, s.Out, e.Step)); n != score.Total || len(e.Scores) != 1 {
			t.Errorf("after step %d: %d predictions, scores %v", e.Step, n, e.Scores)
		}
	}
}

// TestTokenAccuracyIsTeacherForced compares with the likeliest token that a session gives after the right ones.
func TestTokenAccuracyIsTeacherForced(t *testing.T) {
	d := drilled(t, metric.TokenAccuracy, 40)
	d.Job.Sets = []corpus.Set{{Name: "first", Rows: d.Job.Eval.(data.Slice)[:20]}, {Name: "rest", Rows: d.Job.Eval.(data.Slice)[20:]}}
	s := run1(t, d.Job)
	session := generate.NewSession(d.Job.Model, d.Job.Memory, d.Job.Config.Seq)
	defer session.Close()
	right, all := [2]int{}, [2]int{}
	for i := range d.Job.Eval.Len() {
		r, err := d.Job.Eval.Row(i)
		if err != nil {
			t.Fatal(err)
		}
		session.Truncate(0)
		for k := 1; k < len(r.IDs) && r.Segments[k] != 0; k++ {
			logits, err := session.Feed(t.Context(), r.IDs[k-1:k])
			if err != nil {
				t.Fatal(err)
			}
			if r.Labels[k] == data.Ignore {
				continue
			}
			best := 0
			for id, logit := range logits {
				if logit > logits[best] {
					best = id
				}
			}
			set := min(i/20, 1)
			all[set]++
			if int32(best) == r.IDs[k] {
				right[set]++
			}
		}
	}
	share := func(right, all int) float64 { return float64(right) / float64(all) }
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	if got, want := s.After.Scores["token_accuracy"], share(right[0]+right[1], all[0]+all[1]); !near(got, want) || want < 0.1 ||
		want == 1 {
		t.Errorf("token_accuracy %g, want %g", got, want)
	}
	loss := 0.0
	for i, set := range s.After.Sets {
		if got, want := set.Scores["token_accuracy"], share(right[i], all[i]); !near(got, want) || set.Targets != all[i] {
			t.Errorf("%s: %g of %d, want %g of %d", set.Name, got, set.Targets, want, all[i])
		}
		loss += set.Loss * float64(set.Targets) / float64(s.After.Targets)
	}
	if !near(loss, s.After.Loss) || len(s.After.Sets) != 2 {
		t.Errorf("%+v: the loss is not the mean of the sets'", s.After)
	}
	if p := predictions(t, s.Out, 0); p[0].Data != "first" || p[len(p)-1].Data != "rest" || p[0].Expected == "" {
		t.Errorf("%+v ... %+v", p[0], p[len(p)-1])
	}
}

// TestTheBestIsByTheMetric: the best evaluation has the highest score, and the run stops when it does not rise.
func TestTheBestIsByTheMetric(t *testing.T) {
	d := drilled(t, metric.RougeL, 20)
	c := &d.Job.Config
	c.Metric.Best, c.Steps, c.LR, c.Checkpoints = "rouge_l", 20, 0.5, trainer.Checkpoints{EvalEvery: 2, Patience: 3, LoadBest: true}
	s := run1(t, d.Job)
	best, since := 0.0, 0
	var want trainer.Eval
	for _, e := range evals(t, s.Out)[1:] {
		if since++; want.Step == 0 || e.Scores["rouge_l"] > best {
			best, since, want = e.Scores["rouge_l"], 0, e
		}
	}
	if s.Best.Step != want.Step || !s.Stopped || since != 3 || s.Steps != want.Step+6 || !s.Loaded {
		t.Errorf("%+v, best %+v; want step %d and %d evaluations after it", s, s.Best, want.Step, since)
	}
}

func TestMetricsThatDoNotFit(t *testing.T) {
	for name, change := range map[string]func(*trainer.Config){
		"no metric":     func(c *trainer.Config) { c.Metric.Name = "bleu" },
		"another best":  func(c *trainer.Config) { c.Metric.Best = "exact_match" },
		"no evaluation": func(c *trainer.Config) { c.Checkpoints.NoEval = true },
		"preferences":   func(c *trainer.Config) { c.Preference.Stage = "dpo" },
		"no length":     func(c *trainer.Config) { c.Metric.MaxNewTokens = -1 },
	} {
		c := trainer.Default()
		c.Metric.Name = metric.RougeL
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	j := job(t)
	j.Config.Metric.Name = metric.ExactMatch
	if _, err := j.Run(t.Context()); err == nil {
		t.Error("a job without a tokenizer is taken")
	}
}
