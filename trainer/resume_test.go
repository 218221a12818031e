package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// long is job with enough steps for evaluations and checkpoints of every kind.
func long(t *testing.T, out string) *trainer.Job {
	t.Helper()
	j := job(t)
	c := &j.Config
	c.Steps, c.LR, c.Warmup, c.Out = 7, 5e-3, 2, out
	c.Checkpoints = trainer.Checkpoints{SaveEvery: 2, Keep: 2, EvalEvery: 3}
	return j
}

// halves makes the model of a job one that is stored in bfloat16.
func halves(t *testing.T, j *trainer.Job, dir string) {
	t.Helper()
	var tensors []checkpoint.Named
	for _, p := range j.Model.Params() {
		for _, e := range p.Entries {
			half := core.NewTensor(core.BFloat16, e.Shape...)
			half.Store(e.View(p.Tensor).Float32s(), 0)
			tensors = append(tensors, checkpoint.Named{Name: e.Name, Tensor: half})
		}
	}
	var err error
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(tiny), 0o666); err != nil {
		t.Fatal(err)
	}
	if j.Model, err = models.Load(dir, j.Memory); err != nil {
		t.Fatal(err)
	}
	j.Config.Model = dir
}

// adapted makes the model of a job that of a folder with adapters.
func adapted(t *testing.T, j *trainer.Job, dir string, c lora.Config) {
	t.Helper()
	var err error
	if j.Model, err = models.LoadWith(dir, j.Memory, models.LoadOptions{LoRA: c, Seed: j.Config.Seed}); err != nil {
		t.Fatal(err)
	}
	j.Config.Model, j.Config.LoRA = dir, c
}

// wider makes the model of a job one with matrices of 4096 elements and more, and gives it an optimizer.
func wider(t *testing.T, j *trainer.Job, mem core.Memory, kind optim.Kind) {
	t.Helper()
	m, err := models.New([]byte(strings.Replace(tiny, `"head_dim": 8`, `"head_dim": 32`, 1)), mem)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	j.Model, j.Memory, j.Config.Optimizer.Kind = m, mem, kind
}

// narrowed makes the weights of a job's model bfloat16.
func narrowed(t *testing.T, j *trainer.Job, mem core.Memory) {
	t.Helper()
	m, err := models.NewWith(j.Model.RawConfig, mem, models.LoadOptions{Narrow: true})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	j.Model, j.Config.Optimizer.Weights = m, trainer.BF16
}

// times are the parts of a log that tell when and where a run was, not what it did.
var times = regexp.MustCompile(`"tokens_per_s": ?[^,}]*|"out": ?"[^"]*"|"model": ?"/[^"]*"|"threads": ?[0-9]*`)

// result is what must not depend on whether a run was interrupted.
func result(t *testing.T, out string) (log, weights []byte) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(out, trainer.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	weights, err = os.ReadFile(filepath.Join(out, checkpoint.SingleFile))
	if errors.Is(err, fs.ErrNotExist) {
		weights, err = os.ReadFile(filepath.Join(out, lora.WeightsFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	return times.ReplaceAll(log, nil), weights
}

func sameResult(t *testing.T, got, want string) {
	t.Helper()
	log, weights := result(t, got)
	wantLog, wantWeights := result(t, want)
	if !bytes.Equal(log, wantLog) {
		t.Errorf("the logs differ:\n%s\nwant\n%s", log, wantLog)
	}
	if !bytes.Equal(weights, wantWeights) {
		t.Error("the weights differ")
	}
	if got, want := lastState(t, got), lastState(t, want); got != want {
		t.Errorf("the states differ:\n%s\nwant\n%s", got, want)
	}
}

// lastState returns the state in a run's last checkpoint, of which what is resumed twice goes on.
func lastState(t *testing.T, out string) string {
	t.Helper()
	steps, err := checkpoint.Steps(out)
	if err != nil || len(steps) == 0 {
		t.Fatalf("checkpoints %v, %v", steps, err)
	}
	text, err := os.ReadFile(filepath.Join(checkpoint.StepDir(out, steps[len(steps)-1]), trainer.StateFile))
	if err != nil {
		t.Fatal(err)
	}
	return times.ReplaceAllString(string(text), "")
}

func run1(t *testing.T, j *trainer.Job) *trainer.Summary {
	t.Helper()
	s, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNobodysFilesAreTakenForThoseOfARun: a folder with other files is refused, at once and again, and stays as it is.
func TestNobodysFilesAreTakenForThoseOfARun(t *testing.T) {
	from := filepath.Join(t.TempDir(), "out")
	run1(t, long(t, from))
	for name, resumes := range map[string]bool{"a new run": false, "one that goes on elsewhere": true} {
		out := filepath.Join(t.TempDir(), "mine")
		mine := filepath.Join(out, trainer.PredictionsDir, "mine")
		if err := errors.Join(os.MkdirAll(filepath.Dir(mine), 0o777), os.WriteFile(mine, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		j := long(t, from)
		if resumes {
			j = resumed(t, j)
		}
		j.Config.Out = out
		for range 2 { // the folder is not claimed any more
			if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not empty") {
				t.Errorf("%s: error %v", name, err)
			}
		}
		if _, err := os.Stat(mine); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestARunThatGoesOnKeepsItsPredictions, which are those of the evaluations so far.
func TestARunThatGoesOnKeepsItsPredictions(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	run1(t, long(t, out))
	kept := filepath.Join(out, trainer.PredictionsDir, "step-3.jsonl")
	if err := errors.Join(os.Mkdir(filepath.Dir(kept), 0o777), os.WriteFile(kept, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	run1(t, resumed(t, long(t, out)))
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// resumed makes j go on from the newest checkpoint of its output folder, if there is one.
func resumed(t *testing.T, j *trainer.Job) *trainer.Job {
	t.Helper()
	if steps, err := checkpoint.Steps(j.Config.Out); err != nil || len(steps) == 0 {
		return j
	}
	var err error
	if j.Resume, err = trainer.OpenCheckpoint(j.Config.Out); err != nil {
		t.Fatal(err)
	}
	return j
}

// dies runs a job until it is given up in the middle of its work after some step.
func dies(t *testing.T, j *trainer.Job, step int) {
	t.Helper()
	j.Hooks.OnStep = endAt(step, func() { panic("the end") })
	defer func() {
		if recover() == nil {
			t.Errorf("the run did not die after step %d", step)
		}
	}()
	j.Run(t.Context())
}

// TestAResumedRunEqualsAnUninterruptedOne gives a run up after a step, again after the
// next, and resumes it with another number of threads.
func TestAResumedRunEqualsAnUninterruptedOne(t *testing.T) {
	dir, base, reg, mem := t.TempDir(), tinyFolder(t), plugintest.Scan(t, transport.Options{}), plugintest.Memory(t)
	eight := golden.EightBits(t, base)
	modes := map[string]func(*trainer.Job){
		"float32":                func(*trainer.Job) {},
		"bfloat16":               func(j *trainer.Job) { halves(t, j, filepath.Join(dir, "half")) },
		"accumulated":            func(j *trainer.Job) { j.Config.Accumulate = 3 },
		"gradient checkpointing": func(j *trainer.Job) { j.Config.GradientCheckpointing = true },
		"without evaluation":     func(j *trainer.Job) { j.Eval = nil },
		"LoRA": func(j *trainer.Job) {
			j.Config.Accumulate = 2
			adapted(t, j, base, lora.Config{Rank: 2, Dropout: 0.3})
		},
		"LoRA, bitsandbytes": func(j *trainer.Job) { adapted(t, j, eight, lora.Config{Rank: 2}) },
		"preferences":        func(j *trainer.Job) { preferring(t, j, preference.Config{Stage: preference.DPO}) },
		"preferences, LoRA": func(j *trainer.Job) {
			adapted(t, j, base, lora.Config{Rank: 2, Dropout: 0.3})
			preferring(t, j, preference.Config{Stage: preference.KTO})
		},
		"kernels": func(j *trainer.Job) {
			m, err := models.New([]byte(tiny), mem)
			if err != nil {
				t.Fatal(err)
			}
			m.Init(1)
			j.Model, j.Memory, j.Config.Kernels, j.Registry = m, mem, "all", reg
		},
	}
	modes["rows of several lengths"] = func(j *trainer.Job) {
		modes["kernels"](j)
		grouped(t, j)
	}
	for _, kind := range optim.Kinds()[1:] {
		modes[kind] = func(j *trainer.Job) { wider(t, j, autograd.Heap{}, optim.Kind(kind)) }
	}
	modes["update in backward"] = func(j *trainer.Job) {
		wider(t, j, mem, optim.AdamW8)
		j.Config.Kernels, j.Registry, j.Config.Optimizer.UpdateInBackward = "all", reg, true
	}
	modes["weights in bfloat16"] = func(j *trainer.Job) {
		modes["update in backward"](j)
		narrowed(t, j, mem)
	}
	for name, change := range modes {
		t.Run(name, func(t *testing.T) {
			fresh := func(out string) *trainer.Job {
				j := long(t, filepath.Join(t.TempDir(), out))
				change(j)
				return j
			}
			whole := fresh("whole")
			want := run1(t, whole)
			stops := []int{3}
			if name == "float32" || name == "kernels" { // before the first checkpoint, of which nothing goes on, and at the end
				stops = append(stops, 1, 6)
			}
			for _, stop := range stops {
				j := fresh("stopped")
				out := j.Config.Out
				for _, at := range []int{stop, stop + 1} {
					dies(t, resumed(t, j), at)
					j = fresh("next")
					j.Config.Out, j.Config.Threads = out, 1+at%3
				}
				got := run1(t, resumed(t, j))
				sameResult(t, out, whole.Config.Out)
				if got.Steps != 7 || got.First.Loss != want.First.Loss || (got.After == nil) != (want.After == nil) || (got.Best == nil) != (want.Best == nil) ||
					got.Best != nil && (got.Best.Step != want.Best.Step || got.Best.Loss != want.Best.Loss) {
					t.Errorf("summary %+v, want %+v", got, want)
				}
			}
		})
	}
}

// TestAResumedRunPlacesKernelsAsBefore is of a run where auto has found the fused addition
// slow and the norm after it fast, which all would place the other way round.
func TestAResumedRunPlacesKernelsAsBefore(t *testing.T) {
	reg, mem := plugintest.Scan(t, transport.Options{}), plugintest.Memory(t)
	start := func(out string) *trainer.Job {
		m, err := models.New([]byte(tiny), mem)
		if err != nil {
			t.Fatal(err)
		}
		m.Init(1)
		j := long(t, out)
		j.Model, j.Memory, j.Config.Kernels, j.Registry = m, mem, "all", reg
		return j
	}
	out := filepath.Join(t.TempDir(), "out")
	dies(t, start(out), 3)
	j := resumed(t, start(out))
	covered := 0
	for i, p := range j.Resume.State.Kernels {
		switch {
		case p.Op == core.AddRMSNorm:
			j.Resume.State.Kernels[i].Kernel = ""
		case p.Op == core.RMSNorm && p.Kernel == "":
			j.Resume.State.Kernels[i].Kernel = "npu_fused_rmsnorm"
			covered++
		}
	}
	if covered == 0 {
		t.Fatal("no norm was covered: the test tests nothing")
	}
	want := j.Resume.State.Kernels
	j.Hooks.OnPatch = func(r *core.Report) {
		for i, a := range r.Actions {
			name := ""
			if a.Kernel != nil {
				name = a.Kernel.Info().Name
			}
			if name != want[i].Kernel || a.CoveredBy != "" && a.Site.Op == core.RMSNorm {
				t.Errorf("%s has %q, covered by %q; want %q", a.Site.Path, name, a.CoveredBy, want[i].Kernel)
			}
		}
	}
	run1(t, j)
}

// TestAnInterruptedRunCanBeResumed ends the context instead, which saves the model too.
func TestAnInterruptedRunCanBeResumed(t *testing.T) {
	whole := long(t, filepath.Join(t.TempDir(), "whole"))
	run1(t, whole)
	for _, stop := range []int{1, 3, 4} {
		j := long(t, filepath.Join(t.TempDir(), "stopped"))
		ctx, cancel := context.WithCancel(t.Context())
		j.Hooks.OnStep = endAt(stop, cancel)
		s, err := j.Run(ctx)
		if err != nil || !s.Interrupted || s.Checkpoint != checkpoint.StepDir(j.Config.Out, stop) || !saved(j) {
			t.Fatalf("interrupted after %d: %+v, %v", stop, s, err)
		}
		next := long(t, j.Config.Out)
		var start trainer.Start
		next.Hooks.OnStart = func(s trainer.Start) { start = s }
		run1(t, resumed(t, next))
		if start.Resumed != stop {
			t.Errorf("resumed after step %d, want %d", start.Resumed, stop)
		}
		sameResult(t, j.Config.Out, whole.Config.Out)
	}
}

func TestAFinishedRunCanBeFinishedAgain(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	run1(t, j)
	log, weights := result(t, j.Config.Out)
	// As if the process had been killed while the last files got their names.
	if err := os.Remove(filepath.Join(j.Config.Out, "config.json")); err != nil {
		t.Fatal(err)
	}
	next := long(t, j.Config.Out)
	next.Hooks.OnWarning = func(err error) { t.Error(err) } // as of a checkpoint that is there
	if s := run1(t, resumed(t, next)); s.First.Step != 1 || s.Last.Step != 7 {
		t.Errorf("summary %+v", s)
	}
	again, weightsAgain := result(t, j.Config.Out)
	if !bytes.Equal(log, again) || !bytes.Equal(weights, weightsAgain) {
		t.Error("finishing a finished run changed it")
	}
	if _, err := os.Stat(filepath.Join(j.Config.Out, "config.json")); err != nil {
		t.Error(err)
	}
}

// TestResumingElsewhereEqualsGoingOn goes on in another output folder.
func TestResumingElsewhereEqualsGoingOn(t *testing.T) {
	whole := long(t, filepath.Join(t.TempDir(), "whole"))
	whole.Config.Checkpoints.Keep = 0
	run1(t, whole)
	j := long(t, filepath.Join(t.TempDir(), "other"))
	j.Config.Checkpoints.Keep = 0
	var err error
	if j.Resume, err = trainer.OpenCheckpoint(checkpoint.StepDir(whole.Config.Out, 4)); err != nil {
		t.Fatal(err)
	}
	run1(t, j)
	sameResult(t, j.Config.Out, whole.Config.Out)

	back := long(t, whole.Config.Out)
	back.Resume = j.Resume
	if _, err := back.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "checkpoint-7 is newer") {
		t.Errorf("going back behind newer checkpoints: %v", err)
	}
}

func TestARateThatDoesNotDependOnTheEndCanGoOnLonger(t *testing.T) {
	for _, schedule := range []optim.Decay{optim.ConstantWithWarmup, optim.InverseSqrt} {
		t.Run(string(schedule), func(t *testing.T) { goesOnLonger(t, schedule) })
	}
}

func goesOnLonger(t *testing.T, schedule optim.Decay) {
	t.Helper()
	start := func(out string, steps int) *trainer.Job {
		j := long(t, filepath.Join(t.TempDir(), out))
		j.Config.Schedule, j.Config.Steps, j.Eval = schedule, steps, nil
		return j
	}
	whole := start("whole", 7)
	run1(t, whole)
	short := start("short", 4)
	run1(t, short)
	longer := start("longer", 7)
	longer.Config.Out = short.Config.Out
	run1(t, resumed(t, longer))
	_, got := result(t, short.Config.Out)
	if _, want := result(t, whole.Config.Out); !bytes.Equal(got, want) {
		t.Error("the weights differ from those of a run that was longer from the start")
	}
	shorter := resumed(t, start("shorter", 3))
	shorter.Resume = longer.Resume
	if _, err := shorter.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "it has done 4 steps") {
		t.Errorf("a shorter run than was done: %v", err)
	}
}

func TestResumingWithAnotherConfigurationIsRefused(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	run1(t, j)
	r, err := trainer.OpenCheckpoint(j.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*trainer.Config){
		"trainer.Config.LR: 0.005 -> 0.001":           func(c *trainer.Config) { c.LR = 1e-3 },
		"trainer.Config.Batch: 2 -> 3":                func(c *trainer.Config) { c.Batch = 3 },
		"trainer.Config.Seq: 17 -> 18":                func(c *trainer.Config) { c.Seq = 18 },
		"trainer.Config.Accumulate: 1 -> 2":           func(c *trainer.Config) { c.Accumulate = 2 },
		"trainer.Config.Seed: 0 -> 1":                 func(c *trainer.Config) { c.Seed = 1 },
		"trainer.Config.Warmup: 2 -> 1":               func(c *trainer.Config) { c.Warmup = 1 },
		"trainer.Config.Schedule: \"cosine\" -> \"li": func(c *trainer.Config) { c.Schedule = "linear" },
		"trainer.Config.WeightDecay: 0.01 -> 0":       func(c *trainer.Config) { c.WeightDecay = 0 },
		"trainer.Config.Clip: 1 -> 0":                 func(c *trainer.Config) { c.Clip = 0 },
		"trainer.Config.Kernels: \"none\" -> \"all\"": func(c *trainer.Config) { c.Kernels = "all" },
		"trainer.Checkpoints.EvalEvery: 3 -> none":    func(c *trainer.Config) { c.Checkpoints.EvalEvery = 0 },
		"trainer.Config.Steps: 7 -> 8":                func(c *trainer.Config) { c.Steps = 8 },
		"trainer.Config.Epochs: 1 -> 2":               func(c *trainer.Config) { c.Epochs = 2 },
		"DecayAll: none -> true\ntrainer.Config.GroupByLength: none -> true": func(c *trainer.Config) { // in order
			c.GroupByLength, c.DecayAll = true, true
		},
		"-> 8 (the learning rates so": func(c *trainer.Config) { c.Steps = 8 },
		"constant, or constant_with_warmup or inverse_sqrt without trainer.Config.WarmupRatio": func(c *trainer.Config) { c.Steps = 8 },
	} {
		c := j.Config
		change(&c)
		if err := r.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		next := long(t, j.Config.Out)
		next.Config, next.Resume = c, r
		if _, err := next.Run(t.Context()); err == nil {
			t.Errorf("%s: the run went on", want)
		}
	}
	c := j.Config
	c.Out, c.Threads, c.Strict, c.Checkpoints.Keep, c.Checkpoints.SaveEvery = "other", 3, true, 5, 1
	if err := r.Check(c); err != nil {
		t.Errorf("what changes no result is refused: %v", err)
	}
}

func TestResumingWithOtherInputsIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "half")
	j := long(t, filepath.Join(t.TempDir(), "out"))
	halves(t, j, folder)
	run1(t, j)
	changed := func(values []int32) []int32 { return append([]int32{values[0] + 1}, values[1:]...) }
	row := func(change func(*data.Row)) func(*trainer.Job) {
		return func(j *trainer.Job) {
			rows := slices.Clone(j.Train.(data.Slice))
			change(&rows[1])
			j.Train = rows
		}
	}
	for what, change := range map[string]func(*trainer.Job){
		"rows":          func(j *trainer.Job) { j.Train = j.Train.(data.Slice)[1:] },
		"held-out rows": func(j *trainer.Job) { j.Eval = j.Eval.(data.Slice)[1:] },
		"which rows are held out": func(j *trainer.Job) {
			all, train := slices.Concat(j.Train.(data.Slice), j.Eval.(data.Slice)), j.Train.Len()+1
			j.Train, j.Eval = all[:train], all[train:]
		},
		"tokens":    row(func(r *data.Row) { r.IDs = changed(r.IDs) }),
		"labels":    row(func(r *data.Row) { r.Labels = changed(r.Labels) }),
		"positions": row(func(r *data.Row) { r.Positions = changed(r.Positions) }),
		"segments":  row(func(r *data.Row) { r.Segments = changed(r.Segments) }),
		"roles":     row(func(r *data.Row) { r.Roles = []data.Role{data.Chosen} }),
		"forks":     row(func(r *data.Row) { r.Forks = []int32{1} }),
		"model": func(j *trainer.Job) {
			j.Model.Init(2)
			halves(t, j, filepath.Join(t.TempDir(), "other"))
		},
		"configuration": func(j *trainer.Job) { j.Model.RawConfig = append(j.Model.RawConfig, ' ') },
	} {
		next := long(t, j.Config.Out)
		halves(t, next, folder)
		change(next)
		want := "the data, or what the tokenizer makes of it, is not that of the run so far"
		if what == "model" || what == "configuration" {
			want = "the model is not the one"
		}
		if _, err := resumed(t, next).Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("other %s: want %q, got %v", what, want, err)
		}
	}
	// Where the same files are is no matter.
	next := long(t, j.Config.Out)
	halves(t, next, filepath.Join(t.TempDir(), "moved"))
	run1(t, resumed(t, next))
}

func TestKernelsAreThoseOfTheRunSoFar(t *testing.T) {
	registry := func(names ...string) *core.Registry {
		reg := core.NewRegistry()
		for _, name := range names {
			if err := reg.Register(&renamed{reference.Single(core.RMSNorm), name}); err != nil {
				t.Fatal(err)
			}
		}
		return reg
	}
	j := long(t, filepath.Join(t.TempDir(), "out"))
	j.Registry, j.Config.Kernels = registry("fast"), "all"
	run1(t, j)
	r, err := trainer.OpenCheckpoint(j.Config.Out)
	if err != nil {
		t.Fatal(err)
	}
	norms := 0
	for i, p := range r.State.Kernels {
		if p.Op != core.RMSNorm {
			continue
		}
		if norms++; p.Kernel != "fast" {
			t.Errorf("%s has %q", p.Path, p.Kernel)
		}
		if norms == 1 { // as auto would leave a site that is not worth it
			r.State.Kernels[i].Kernel = ""
		}
	}
	next := func(reg *core.Registry) (*core.Report, error) {
		j := long(t, j.Config.Out)
		j.Registry, j.Config.Kernels, j.Resume = reg, "all", r
		s, err := j.Run(t.Context())
		if err != nil {
			return nil, err
		}
		return s.Report, nil
	}
	report, err := next(registry("fast", "faster"))
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Applied(); got["fast"] != norms-1 || len(got) != 1 {
		t.Errorf("the kernels are %v, want fast on %d sites", got, norms-1)
	}
	if _, err := next(registry("faster")); err == nil || !strings.Contains(err.Error(), "had the kernel fast, which cannot be placed now") {
		t.Errorf("a kernel is missing: %v", err)
	}
}

// renamed is a kernel for norms under a name of its own.
type renamed struct {
	core.Kernel
	name string
}

func (k *renamed) Info() core.Info {
	return core.Info{Name: k.name, Op: core.RMSNorm, DTypes: []core.DType{core.Float32}, Backward: true}
}

// TestDamagedCheckpointsAreErrors is about those of earlier programs, which have no
// checksums; see TestDamageToACheckpointNamesTheFileAndAnOlderOne for the others.
func TestDamagedCheckpointsAreErrors(t *testing.T) {
	j := long(t, filepath.Join(t.TempDir(), "out"))
	j.Config.Checkpoints.Keep = 0
	run1(t, j)
	newest := checkpoint.StepDir(j.Config.Out, 7)
	withoutSums(t, newest)
	replace := func(name, old, with string) func() error {
		return func() error {
			path := filepath.Join(newest, name)
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !bytes.Contains(b, []byte(old)) {
				return fmt.Errorf("%s lacks %q", path, old)
			}
			return os.WriteFile(path, bytes.Replace(b, []byte(old), []byte(with), 1), 0o666)
		}
	}
	for _, tt := range []struct {
		want   string
		damage func() error
	}{
		{"optimizer.safetensors is of step \"8\", want 7", replace("optimizer.safetensors", `"step":"7"`, `"step":"8"`)},
		{"lacks the tensor exp_avg.lm_head.weight", replace("optimizer.safetensors", `"exp_avg.lm_head.weight"`, `"exp_avg.lm_head.weighs"`)},
		{"version is 1, this program reads 2", replace(trainer.StateFile, `"version": 2`, `"version": 1`)},
		{"cannot be: the file is damaged", replace(trainer.StateFile, `"global_step": 7`, `"global_step": 9`)},
		{"cannot be: the file is damaged", func() error {
			return errors.Join(replace(trainer.StateFile, `"global_step": 7`, `"global_step": 0`)(),
				replace(trainer.StateFile, `"batches": 7`, `"batches": 0`)())
		}},
		{"cannot be: the file is damaged", replace(trainer.StateFile, `"max_steps": 7`, `"max_steps": 6`)},
		{"cannot be: the file is damaged", replace(trainer.StateFile, `"rows": `, `"rows": 0, "was": `)},
		{"cannot be: the file is damaged", replace(trainer.StateFile, `"batches": 7`, `"batches": 9223372036854775807`)},
		{"trainer.Config.Accumulate is 9223372036854775807, must be between", replace(trainer.StateFile, `"grad_accum": 1`, `"grad_accum": 9223372036854775807`)},
		{"the JSON ends in the middle", func() error { return os.WriteFile(filepath.Join(newest, trainer.StateFile), []byte("{"), 0o666) }},
		{"it is no checkpoint of a training run", func() error { return os.Remove(filepath.Join(newest, trainer.StateFile)) }},
	} {
		backup := filepath.Join(t.TempDir(), "backup")
		if err := os.CopyFS(backup, os.DirFS(newest)); err != nil {
			t.Fatal(err)
		}
		if err := tt.damage(); err != nil {
			t.Fatal(err)
		}
		next := long(t, j.Config.Out)
		var err error
		if next.Resume, err = trainer.OpenCheckpoint(j.Config.Out); err == nil {
			_, err = next.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("want %q, got %v", tt.want, err)
		}
		if err := errors.Join(os.RemoveAll(newest), os.CopyFS(newest, os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := trainer.OpenCheckpoint(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no checkpoint") {
		t.Errorf("a folder without checkpoints: %v", err)
	}
}
