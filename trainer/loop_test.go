package trainer_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/metric"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
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
	for name, steps := range map[string]int{"on the way": 1000000, "in the last step": 1} {
		t.Run(name, func(t *testing.T) {
			j := job(t)
			abort := make(chan struct{})
			j.Abort, j.Config.Steps = abort, steps
			j.Hooks.OnStep = endAt(1, func() { close(abort) })
			if _, err := j.Run(t.Context()); err == nil {
				t.Fatal("an aborted run returned no error")
			}
			if left, _ := os.ReadDir(filepath.Dir(j.Config.Out)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// endless is a kernel that ends when its context does.
type endless struct {
	core.Kernel
	begun func()
}

func (k *endless) Forward(ctx context.Context, _ *core.Call) error {
	k.begun()
	<-ctx.Done()
	return ctx.Err()
}

func TestAbortEndsTheStepAtHand(t *testing.T) {
	j := job(t)
	abort := make(chan struct{})
	j.Abort, j.Eval, j.Registry, j.Config.Kernels = abort, nil, core.NewRegistry(), "all"
	k := &endless{reference.Kernel(core.RMSNorm), func() { close(abort) }}
	if err := j.Registry.Register(k); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Run(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
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
type fallen struct {
	core.Kernel
	times int
}

func (k fallen) Health() core.Health {
	return core.Health{Fallbacks: uint64(k.times), LastError: "it died"}
}
func (fallen) Info() core.Info {
	return core.Info{Name: "fallen", Op: core.RMSNorm, DTypes: []core.DType{core.Float32}, Backward: true}
}

func TestAStrictRunFailsOnAFallBack(t *testing.T) {
	for _, tt := range []struct {
		strict bool
		times  int
	}{{false, 1}, {true, 1}, {true, 0}} {
		j := job(t)
		j.Registry, j.Config.Strict = core.NewRegistry(), tt.strict
		if err := j.Registry.Register(&fallen{times: tt.times}); err != nil {
			t.Fatal(err)
		}
		_, err := j.Run(t.Context())
		fails := tt.strict && tt.times > 0
		if fails != (err != nil) || fails && !strings.Contains(err.Error(), "fallen fell back to the reference: it died") {
			t.Errorf("%+v: %v", tt, err)
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

		"trainer.Config.Threads is 1048576": func(c *trainer.Config) { c.Threads = 1 << 20 },
		"trainer.Config.Beta1 is 1":         func(c *trainer.Config) { c.Beta1 = 1 },
		"trainer.Config.Beta2 is -0.5":      func(c *trainer.Config) { c.Beta2 = -0.5 },
		"trainer.Config.Epsilon is -1":      func(c *trainer.Config) { c.Epsilon = -1 },
		"trainer.Config.CheckEvery is -1":   func(c *trainer.Config) { c.CheckEvery = -1 },
		"trainer.Config.MaxTime is -1s":     func(c *trainer.Config) { c.MaxTime = -time.Second },
		"trainer.Config.CheckpointParts: ":  func(c *trainer.Config) { c.CheckpointParts = []string{"layers.x"} },
		"trainer.Config.Precision":          func(c *trainer.Config) { c.Precision = "float8" },
		"trainer.Config.Args: ":             func(c *trainer.Config) { c.Args = optim.Args{"power": "2"} },
		"lr_end is 1": func(c *trainer.Config) {
			c.Schedule, c.Args = optim.Polynomial, optim.Args{"lr_end": "1"}
		},
		"trainer.Words.Marks is for a built-in chat template": func(c *trainer.Config) { c.Words.Marks = true },
		"trainer.Checkpoints.LoadBest is given with trainer.Checkpoints.NoEval": func(c *trainer.Config) {
			c.Checkpoints.LoadBest, c.Checkpoints.NoEval = true, true
		},
		"trainer.Metric.Name is given with corpus.Config.EvalSize 0": func(c *trainer.Config) {
			c.Metric.Name, c.Data.EvalSize = metric.TokenAccuracy, new(float64)
		},
		"trainer.Optimizer.Momentum is 1, must be below 1": func(c *trainer.Config) {
			c.Optimizer.Kind, c.Optimizer.Momentum = optim.SGD, 1
		},
		"only sgd and muon have one":                               func(c *trainer.Config) { c.Optimizer.Momentum = 0.5 },
		"trainer.Optimizer.Kind is \"lion_32bit\"; it takes adamw": func(c *trainer.Config) { c.Optimizer.Kind = "lion_32bit" },
		"it is for muon alone": func(c *trainer.Config) {
			c.Optimizer.Kind, c.Optimizer.MuonMatchRMS = optim.SGD, true
		},
		"trainer.Optimizer.Weights is bf16, but adapters are trained": func(c *trainer.Config) {
			c.Optimizer.Weights, c.LoRA.Rank = trainer.BF16, 4
		},
		"corpus.Config.RepeatPrompt is given, but only": func(c *trainer.Config) { c.Data.RepeatPrompt = true },
		"corpus.Config.TrainOnPrompt is given, but preferences": func(c *trainer.Config) {
			c.Preference.Stage, c.Data.TrainOnPrompt = preference.DPO, true
		},
		"corpus.Config.Format is given, but": func(c *trainer.Config) {
			c.Preference.Stage, c.Data.Format = preference.DPO, "alpaca"
		},
		"nn.Objective.Smoothing smooths": func(c *trainer.Config) {
			c.Preference.Stage, c.Objective.Smoothing = preference.DPO, 0.1
		},
	} {
		c := trainer.Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	for name, change := range map[string]func(*trainer.Config){
		"defaults": func(*trainer.Config) {},
		"momentum": func(c *trainer.Config) { c.Optimizer.Kind, c.Optimizer.Momentum = optim.SGD, 0.5 },
		"muon": func(c *trainer.Config) {
			c.Optimizer = trainer.Optimizer{Kind: optim.Muon, Momentum: -1, MuonMatchRMS: true}
		},
		"preferences": func(c *trainer.Config) {
			c.Preference.Stage, c.Data.Format, c.Data.RepeatPrompt = preference.DPO, "auto", true
		},
		"a template": func(c *trainer.Config) { c.Words.Marks, c.Data.Template = true, "chatml" },
		"nothing is evaluated": func(c *trainer.Config) {
			c.Checkpoints.NoEval, c.Data.EvalSize = true, new(float64)
		},
		"other held-out data": func(c *trainer.Config) {
			c.Metric.Name, c.Data.EvalSize, c.Data.Eval = metric.TokenAccuracy, new(float64), []string{"held-out.jsonl"}
		},
	} {
		c := trainer.Default()
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMomentumIsTheUsualOneUnlessItIsGiven, and none where it is negative.
func TestMomentumIsTheUsualOneUnlessItIsGiven(t *testing.T) {
	for _, tt := range []struct {
		kind        optim.Kind
		given, want float64
	}{{optim.SGD, 0, 0.9}, {optim.SGD, 0.5, 0.5}, {optim.SGD, -1, 0}, {optim.Muon, 0, 0.95}, {optim.Muon, -1, 0}, {optim.AdamW, 0, 0}} {
		c := trainer.Default()
		c.Optimizer.Kind, c.Optimizer.Momentum, c.Beta1, c.Seed = tt.kind, tt.given, 0.8, 5
		if o := c.OptimConfig(); o.Momentum != tt.want || o.Kind != tt.kind || o.Beta1 != 0.8 || o.Seed != 5 {
			t.Errorf("%+v: %+v", tt, o)
		}
	}
}
