package trainer_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// job is a run of the tiny model that saves to a new folder.
func job(t *testing.T) *trainer.Job {
	t.Helper()
	m, err := models.New([]byte(tiny), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	c := trainer.Default()
	c.Steps, c.Batch, c.Seq, c.Kernels, c.Out = 4, 2, 17, "none", filepath.Join(t.TempDir(), "out")
	all := rows(t, 17)
	return &trainer.Job{Config: c, Model: m, Memory: autograd.Heap{}, Train: all[4:], Eval: all[:4]}
}

func saved(j *trainer.Job) bool {
	_, err := os.Stat(filepath.Join(j.Config.Out, "model.safetensors"))
	return err == nil
}

// unreadable are rows on a disk that fails.
type unreadable struct{ data.Rows }

var errDisk = errors.New("input/output error")

func (unreadable) Row(int) (data.Row, error) { return data.Row{}, errDisk }

// TestHeldOutRowsThatCannotBeReadSayWhy: that there is nothing to evaluate then is not what is wrong.
func TestHeldOutRowsThatCannotBeReadSayWhy(t *testing.T) {
	j := job(t)
	j.Eval = unreadable{j.Eval}
	if _, err := j.Run(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("%v, want %v", err, errDisk)
	}
}

func TestARunWithoutARegistryStillObeysTheSelection(t *testing.T) {
	j := job(t)
	j.Config.Kernels = "npu_fused_moe"
	if _, err := j.Run(t.Context()); err == nil || saved(j) {
		t.Errorf("a kernel that nobody has was accepted: %v", err)
	}
	j = job(t)
	if s, err := j.Run(t.Context()); err != nil || !saved(j) || s.Interrupted || s.Steps != 4 || s.After == nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestAnEndedContextFinishesTheStepAndSaves ends it at every point of a run.
func TestAnEndedContextFinishesTheStepAndSaves(t *testing.T) {
	for name, hook := range map[string]func(*trainer.Job, func()){
		"before":               func(_ *trainer.Job, end func()) { end() },
		"at the start":         func(j *trainer.Job, end func()) { j.Hooks.OnStart = func(trainer.Start) { end() } },
		"after the second":     func(j *trainer.Job, end func()) { j.Hooks.OnStep = endAt(2, end) },
		"after the last":       func(j *trainer.Job, end func()) { j.Hooks.OnStep = endAt(4, end) },
		"after the evaluation": func(j *trainer.Job, end func()) { j.Hooks.OnEval = func(trainer.Eval) { end() } },
	} {
		t.Run(name, func(t *testing.T) {
			j := job(t)
			ctx, cancel := context.WithCancel(t.Context())
			hook(j, cancel)
			s, err := j.Run(ctx)
			cancel()
			if err != nil || !saved(j) {
				t.Fatalf("saved %v, %v", saved(j), err)
			}
			if want := map[string]int{"after the second": 2, "after the last": 4}[name]; s.Steps != want || s.Interrupted != (want < 4) {
				t.Errorf("%d steps, interrupted %v", s.Steps, s.Interrupted)
			}
		})
	}
}

func endAt(n int, end func()) func(trainer.Step) {
	return func(s trainer.Step) {
		if s.Step == n {
			end()
		}
	}
}

func TestAbortSavesNothingAndCleansUp(t *testing.T) {
	j := job(t)
	abort := make(chan struct{})
	j.Abort, j.Config.Steps = abort, 1000000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j.Hooks.OnStep = endAt(1, func() { close(abort) })
	if _, err := j.Run(ctx); err == nil {
		t.Fatal("an aborted run returned no error")
	}
	if left, _ := os.ReadDir(filepath.Dir(j.Config.Out)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestADivergedRunSavesNothing(t *testing.T) {
	for _, evalRows := range []int{0, 2} {
		j := job(t)
		j.Config.LR, j.Config.Steps, j.Config.Clip = 1e39, 1, 0 // weights of this size are infinite
		j.Eval = j.Eval.(data.Slice)[:evalRows]
		_, err := j.Run(t.Context())
		if err == nil || saved(j) {
			t.Errorf("saved %v, %v", saved(j), err)
		}
	}
}

// fallen is a kernel whose plugin has been given up.
type fallen struct{ core.Kernel }

func (fallen) Health() core.Health { return core.Health{Fallbacks: 1, LastError: "it died"} }
func (fallen) Info() core.Info {
	return core.Info{Name: "fallen", Op: core.RMSNorm, DTypes: []core.DType{core.Float32}, Backward: true}
}

func TestAStrictRunFailsOnAFallBack(t *testing.T) {
	for _, strict := range []bool{false, true} {
		j := job(t)
		j.Registry, j.Config.Strict = core.NewRegistry(), strict
		if err := j.Registry.Register(&fallen{}); err != nil {
			t.Fatal(err)
		}
		_, err := j.Run(t.Context())
		if strict != (err != nil) || strict && !strings.Contains(err.Error(), "fallen fell back to the reference: it died") {
			t.Errorf("strict %v: %v", strict, err)
		}
	}
}

func TestWarmupIsInStepsOrAShareOfThem(t *testing.T) {
	for _, tt := range []struct {
		warmup int
		ratio  float64
		want   []float64 // shares of the peak
	}{
		{0, 0, []float64{1, 1, 1, 1}},
		{2, 0, []float64{0, 0.5, 1, 1}},
		{0, 0.6, []float64{0, 1. / 3, 2. / 3, 1}}, // rounded up
		{2, 0.75, []float64{0, 0.5, 1, 1}},
		{8, 0, []float64{0, 1. / 8, 2. / 8, 3. / 8}},
	} {
		j := job(t)
		j.Config.Steps, j.Config.Schedule, j.Config.Warmup, j.Config.WarmupRatio = 4, optim.ConstantWithWarmup, tt.warmup, tt.ratio
		var got []float64
		j.Hooks.OnStep = func(s trainer.Step) { got = append(got, s.LR/j.Config.LR) }
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, want := range tt.want {
			if !(math.Abs(got[i]-want) <= 1e-12) {
				t.Errorf("warm-up %d, ratio %g: learning rates %v of the peak, want %v", tt.warmup, tt.ratio, got, tt.want)
				break
			}
		}
	}
}

func TestConfigErrorsNameTheFlag(t *testing.T) {
	for flag, change := range map[string]func(*trainer.Config){
		"trainer.Config.Steps":       func(c *trainer.Config) { c.Steps = -1 },
		"trainer.Config.Epochs":      func(c *trainer.Config) { c.Steps, c.Epochs = 0, 0 },
		"trainer.Config.Epochs ":     func(c *trainer.Config) { c.Epochs = 1e300 },
		"trainer.Config.Epochs is":   func(c *trainer.Config) { c.Epochs = math.Inf(1) },
		"trainer.Config.Epochs is -": func(c *trainer.Config) { c.Steps, c.Epochs = 3, math.Inf(-1) },
		"trainer.Config.Accumulate ": func(c *trainer.Config) { c.Accumulate = 1 << 40 },
		"trainer.Config.Batch":       func(c *trainer.Config) { c.Batch = 0 },
		"trainer.Config.Batch ":      func(c *trainer.Config) { c.Batch, c.Seq = 1<<60, 17 },
		"trainer.Config.Seq":         func(c *trainer.Config) { c.Seq = 1 },
		"trainer.Config.Accumulate":  func(c *trainer.Config) { c.Accumulate = 0 },
		"trainer.Config.LR":          func(c *trainer.Config) { c.LR = math.NaN() },
		"trainer.Config.Schedule":    func(c *trainer.Config) { c.Schedule = "stairs" },
		"trainer.Config.Warmup":      func(c *trainer.Config) { c.Warmup = -1 },
		"trainer.Config.WarmupRatio": func(c *trainer.Config) { c.WarmupRatio = 2 },
		"trainer.Config.WeightDecay": func(c *trainer.Config) { c.WeightDecay = math.Inf(1) },
		"trainer.Config.Clip":        func(c *trainer.Config) { c.Clip = -1 },
		"trainer.Config.Threads":     func(c *trainer.Config) { c.Threads = -1 },
	} {
		c := trainer.Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if err := trainer.Default().Validate(); err != nil {
		t.Error(err)
	}
}
