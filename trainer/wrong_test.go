package trainer_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/preference"
)

// faulty is the reference of an op, under a name of its own, with a fault in some calls: of
// the kind that shows on the tensors of a run and not on those of kerneltest.
type faulty struct {
	core.Kernel
	name  string
	fault func(c *core.Call)
}

func (f *faulty) Info() core.Info {
	i := f.Kernel.Info()
	i.Name = f.name
	return i
}

func (f *faulty) Forward(ctx context.Context, c *core.Call) error {
	err := f.Kernel.Forward(ctx, c)
	f.fault(c)
	return err
}

func (f *faulty) Backward(ctx context.Context, c *core.Call) error {
	err := f.Kernel.Backward(ctx, c)
	f.fault(c)
	return err
}

// double doubles an output.
func double(c *core.Call, name string) {
	for i := range c.Output(name).Float32s() {
		c.Output(name).Float32s()[i] *= 2
	}
}

// faults are kernels that are wrong in a way that verify does not see, the output that shows
// it, and where it shows at first.
var faults = map[string]struct {
	op     core.Op
	fault  func(c *core.Call)
	tensor string
	pass   core.Pass
}{
	"a rope that takes position & 15": {core.RoPE, func(c *core.Call) {
		low := slices.Clone(c.Input("positions").Int32s())
		for i := range low {
			low[i] &= 15
		}
		again := *c
		again.In = slices.Clone(c.In)
		again.Set("positions", core.FromInt32(low, len(low)))
		if err := core.Run(context.Background(), reference.Kernel(core.RoPE), &again); err != nil {
			panic(err)
		}
	}, "q_out", core.Forward},
	"the weight of one layer": {core.RMSNorm, func(c *core.Call) {
		if strings.HasPrefix(c.Site, "layers.1.") && c.Pass == core.Forward {
			double(c, "y")
		}
	}, "y", core.Forward},
	"one gradient of several": {core.AddRMSNorm, func(c *core.Call) {
		if c.Pass == core.Backward && c.Tokens() > 20 {
			double(c, "dweight")
		}
	}, "dweight", core.Backward},
	"only the last tokens": {core.SwiGLU, func(c *core.Call) {
		if c.Pass == core.Backward && c.Tokens() > 20 {
			x := c.Out[0].Float32s()
			clear(x[len(x)-1:])
			x[len(x)-1]++
		}
	}, "dgate", core.Backward},
	"graphs without a backward pass": {core.LinearCrossEntropy, func(c *core.Call) {
		if c.Pass == core.Forward {
			double(c, "losses")
		}
	}, "losses", core.Forward},
	"the gradient of the head": {core.LinearCrossEntropy, func(c *core.Call) {
		if c.Pass == core.Backward && c.Tokens() > 20 {
			clear(c.Output("dweight").Float32s()[:c.Facts.Dim])
		}
	}, "dweight", core.Backward},
	"long rows of attention": {core.Attention, func(c *core.Call) {
		if c.Pass == core.Backward && c.Tokens() > 20 {
			double(c, "dv")
		}
	}, "dv", core.Backward},
	"the weights of a gate": {core.MoEGate, func(c *core.Call) {
		if c.Pass == core.Forward && c.Tokens() > 20 {
			double(c, "routing_weights")
		}
	}, "routing_weights", core.Forward},
	"the last of the experts": {core.MoEExperts, func(c *core.Call) {
		if c.Pass == core.Backward && c.Tokens() > 20 {
			x := c.Output("ddown").Float32s()
			clear(x[len(x)/2:])
		}
	}, "ddown", core.Backward},
}

// checkedJob is a run of the tiny model with a held-out part and the kernels of a registry, by
// their names.
func checkedJob(t *testing.T, mem core.Memory, kernels string, change func(*trainer.Config), with ...core.Kernel) *trainer.Job {
	t.Helper()
	m, err := models.New([]byte(tiny), mem)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	reg := core.NewRegistry()
	for _, k := range with {
		if err := reg.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	c := trainer.Default()
	c.Steps, c.Batch, c.Seq, c.LR, c.Kernels, c.Checkpoints.EvalEvery = 4, 3, 17, 3e-3, kernels, 2
	if change != nil {
		change(&c)
	}
	all := rows(t, c.Seq)
	return &trainer.Job{Config: c, Model: m, Memory: mem, Registry: reg, Train: all[4:], Eval: all[:4]}
}

// outcome is what a run came to, to the bit.
type outcome struct {
	steps []trainer.Step
	evals []trainer.Eval
	final [][]float32
}

func finish(t *testing.T, j *trainer.Job) (outcome, *trainer.Summary) {
	t.Helper()
	var r outcome
	j.Hooks.OnStep = func(s trainer.Step) {
		s.Took, s.Update, s.TokensPer = 0, 0, 0
		r.steps = append(r.steps, s)
	}
	j.Hooks.OnEval = func(e trainer.Eval) {
		if n := len(r.evals); n > 0 && r.evals[n-1].Step == e.Step { // done again
			r.evals = r.evals[:n-1]
		}
		r.evals = append(r.evals, e)
	}
	s, err := j.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range j.Model.Params() {
		r.final = append(r.final, slices.Clone(p.Tensor.Float32s()))
	}
	return r, s
}

func same(t *testing.T, got, want outcome) {
	t.Helper()
	if !slices.Equal(got.steps, want.steps) || !reflect.DeepEqual(got.evals, want.evals) {
		t.Errorf("other losses:\n got %v %v\nwant %v %v", got.steps, got.evals, want.steps, want.evals)
	}
	if !slices.EqualFunc(got.final, want.final, slices.Equal) {
		t.Error("other weights")
	}
}

func TestAWrongKernelDoesNotTrain(t *testing.T) {
	mem := plugintest.Memory(t)
	right := &faulty{reference.Kernel(core.RMSNorm), "right", func(*core.Call) {}}
	swiglu := &faulty{reference.Kernel(core.SwiGLU), "right2", func(*core.Call) {}}
	without := map[string]outcome{} // the runs to equal, by their kernels and how they train
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			var with []core.Kernel
			names := "wrong"
			for _, k := range []core.Kernel{right, swiglu} { // another plugin, which stays
				if k.Info().Op != f.op && f.op != core.AddRMSNorm {
					with, names = append(with, k), names+","+k.Info().Name
					break
				}
			}
			changes := map[string]func(*trainer.Config){
				"":             nil,
				"accumulated":  func(c *trainer.Config) { c.Accumulate = 2 },
				"checkpointed": func(c *trainer.Config) { c.GradientCheckpointing = true },
			}
			for how, change := range changes {
				others := strings.TrimPrefix(strings.TrimPrefix(names, "wrong"), ",")
				if others == "" {
					others = "none"
				}
				want, known := without[others+how]
				if !known {
					want, _ = finish(t, checkedJob(t, mem, others, change, with...))
					without[others+how] = want
				}
				j := checkedJob(t, mem, names, change, append(with[:len(with):len(with)], &faulty{reference.Kernel(f.op), "wrong", f.fault})...)
				var told []*core.KernelError
				var warned []string
				j.Hooks.OnWrong = func(w *core.KernelError) { told = append(told, w) }
				j.Hooks.OnWarning = func(err error) { warned = append(warned, err.Error()) }
				got, sum := finish(t, j)
				same(t, got, want)
				if len(told) != 1 || len(sum.Wrong) != 1 || len(warned) != 1 {
					t.Fatalf("%s: told of %v, the summary has %v, warnings %q; want one of each", how, told, sum.Wrong, warned)
				}
				if w := told[0]; w.Kernel != "wrong" || w.Op != f.op || w.Pass != f.pass || w.Site == "" || !errors.Is(w, core.ErrWrongResult) {
					t.Errorf("%s: told of %v", how, w)
				}
				if !strings.Contains(warned[0], f.tensor+",") || sum.Report.Applied()["wrong"] != 0 {
					t.Errorf("%s: warned of %s; in place: %v", how, warned[0], sum.Report.Applied())
				}
			}
		})
	}
}

func TestAWrongKernelEndsAStrictRun(t *testing.T) {
	f := faults["a rope that takes position & 15"]
	j := checkedJob(t, plugintest.Memory(t), "wrong", func(c *trainer.Config) { c.Strict = true }, &faulty{reference.Kernel(f.op), "wrong", f.fault})
	before := slices.Clone(j.Model.Params()[0].Tensor.Float32s())
	_, err := j.Run(t.Context())
	if !errors.Is(err, core.ErrWrongResult) || !strings.Contains(err.Error(), "kernel wrong") || !strings.Contains(err.Error(), "layers.0.self_attn.rope") {
		t.Errorf("error %v; want one that names the kernel and the site", err)
	}
	if !slices.Equal(before, j.Model.Params()[0].Tensor.Float32s()) {
		t.Error("the weights have changed")
	}
}

// TestRightKernelsTrainToTheSameBits with the check, without, and with it again and again.
func TestRightKernelsTrainToTheSameBits(t *testing.T) {
	mem := plugintest.Memory(t)
	var with []core.Kernel
	for _, op := range core.Ops() {
		with = append(with, &faulty{reference.Kernel(op), "right_" + string(op), func(*core.Call) {}})
	}
	every := func(n int) func(*trainer.Config) {
		return func(c *trainer.Config) { c.CheckEvery = n }
	}
	want, sum := finish(t, checkedJob(t, mem, "all", every(0), with...))
	if sum.Checked.Calls != 0 {
		t.Errorf("without the check: %v", sum.Checked)
	}
	once := 0
	for _, n := range []int{1000, 2, 1} {
		got, sum := finish(t, checkedJob(t, mem, "all", every(n), with...))
		same(t, got, want)
		if len(sum.Wrong) != 0 || sum.Checked.Calls <= once || sum.Checked.Took <= 0 {
			t.Errorf("every %d: %v, %v; the interval before had %d", n, sum.Wrong, sum.Checked, once)
		}
		once = sum.Checked.Calls
	}
}

// TestAKernelThatGoesWrongLaterIsFoundLater: only where it is compared again, and then from
// that step on.
func TestAKernelThatGoesWrongLaterIsFoundLater(t *testing.T) {
	calls := 0
	later := func(c *core.Call) {
		if c.Site != "layers.0.mlp" || c.Pass == core.Forward {
			return
		}
		if calls++; calls > 2 {
			double(c, "dup")
		}
	}
	for every, want := range map[int]int{1000: 0, 2: 1} {
		calls = 0
		j := checkedJob(t, plugintest.Memory(t), "wrong", func(c *trainer.Config) { c.CheckEvery = every }, &faulty{reference.Kernel(core.SwiGLU), "wrong", later})
		if _, sum := finish(t, j); len(sum.Wrong) != want {
			t.Errorf("every %d: %v, want %d", every, sum.Wrong, want)
		}
	}
}

// TestAKernelThatGivesNaNLaterIsTakenOff: a step whose loss is not finite is done once more,
// compared, before the run ends for it.
func TestAKernelThatGivesNaNLaterIsTakenOff(t *testing.T) {
	calls := 0
	later := func(c *core.Call) {
		if c.Site == "layers.0.mlp" && c.Pass == core.Forward {
			if calls++; calls > 3 {
				c.Output("y").Float32s()[0] = float32(math.NaN())
			}
		}
	}
	j := checkedJob(t, plugintest.Memory(t), "wrong", nil, &faulty{reference.Kernel(core.SwiGLU), "wrong", later})
	_, sum := finish(t, j)
	if len(sum.Wrong) != 1 || sum.Steps != j.Config.Steps {
		t.Errorf("%d steps, taken off: %v", sum.Steps, sum.Wrong)
	}
}

// TestAWrongKernelIsNotOfTheReference: log-probabilities of a model that preferences are relative to are computed
// before the first step, which finds a gradient wrong. What they are without the kernel, they are then; those that a
// file has for the next run, too.
func TestAWrongKernelIsNotOfTheReference(t *testing.T) {
	mem := plugintest.Memory(t)
	fault := func(c *core.Call) {
		if c.Pass == core.Backward {
			double(c, "dx")
			return
		}
		for i, v := range c.Output("y").Float32s() { // as right as another order of sums
			c.Output("y").Float32s()[i] = math.Nextafter32(v, 2*v)
		}
	}
	for name, noEval := range map[string]bool{"evaluated": false, "not evaluated": true} {
		t.Run(name, func(t *testing.T) {
			run := func(kernels string) (outcome, string) {
				file := filepath.Join(t.TempDir(), "reference.json")
				j := checkedJob(t, mem, kernels, nil, &faulty{reference.Kernel(core.RMSNorm), "wrong", fault})
				preferring(t, j, preference.Config{Stage: preference.DPO, RefCache: file})
				if j.Config.Checkpoints.NoEval = noEval; noEval {
					j.Eval = nil
				}
				got, sum := finish(t, j)
				if taken := len(sum.Wrong); taken != 0 != (kernels == "wrong") {
					t.Fatalf("%s: %d kernels were wrong", kernels, taken)
				}
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for i := range got.steps {
					got.steps[i].Metrics = nil // a pointer to what losses are made of
				}
				for i := range got.evals {
					got.evals[i].Metrics = nil
				}
				return got, string(text)
			}
			want, wantFile := run("none")
			got, gotFile := run("wrong")
			same(t, got, want)
			if gotFile != wantFile {
				t.Error("the file has other log-probabilities")
			}
		})
	}
}

// TestAKernelThatKeepsAWeightIsFoundOnceThatChanges: in the first step that computes with the changed one, before the
// update of that.
func TestAKernelThatKeepsAWeightIsFoundOnceThatChanges(t *testing.T) {
	for _, warmup := range []int{0, 2} { // the first step of which changes nothing
		wrong := &stale{reference.Kernel(core.RMSNorm), map[string]core.Tensor{}}
		j := checkedJob(t, plugintest.Memory(t), "wrong", func(c *trainer.Config) { c.Warmup = warmup }, wrong)
		steps, found := 0, -1
		j.Hooks.OnStep = func(trainer.Step) { steps++ }
		j.Hooks.OnWrong = func(*core.KernelError) { found = steps }
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := min(warmup, 1) + 1; found != want {
			t.Errorf("warm-up of %d steps: found after %d, want %d", warmup, found, want)
		}
	}
}

// stale is a kernel that keeps each weight by its site.
type stale struct {
	core.Kernel
	weights map[string]core.Tensor
}

func (k *stale) Info() core.Info {
	i := k.Kernel.Info()
	i.Name = "wrong"
	return i
}

func (k *stale) Forward(ctx context.Context, c *core.Call) error {
	return k.Kernel.Forward(ctx, k.kept(c))
}

func (k *stale) Backward(ctx context.Context, c *core.Call) error {
	return k.Kernel.Backward(ctx, k.kept(c))
}

func (k *stale) kept(c *core.Call) *core.Call {
	if _, ok := k.weights[c.Site]; !ok {
		w := core.NewTensor(core.Float32, c.Input("weight").Shape...)
		copy(w.Data, c.Input("weight").Data)
		k.weights[c.Site] = w
	}
	again := *c
	again.In = slices.Clone(c.In)
	again.Set("weight", k.weights[c.Site])
	return &again
}

// TestTheGradientOfAnAdaptersAIsCompared: it is 0 as long as B is, whatever a kernel does to it.
func TestTheGradientOfAnAdaptersAIsCompared(t *testing.T) {
	mem := plugintest.Memory(t)
	for _, warmup := range []int{0, 2} { // the first step of which changes nothing
		m, err := models.LoadWith(tinyFolder(t), mem, models.LoadOptions{LoRA: lora.Config{Rank: 4, Alpha: 8}})
		if err != nil {
			t.Fatal(err)
		}
		wrong := &faulty{reference.Kernel(core.Linear), "wrong", func(c *core.Call) {
			if c.Pass == core.Backward && c.Facts.Rank > 0 {
				double(c, "dlora_a")
			}
		}}
		j := checkedJob(t, mem, "wrong", func(c *trainer.Config) { c.Warmup = warmup }, wrong)
		j.Model = m
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(sum.Wrong) != 1 || !strings.Contains(sum.Wrong[0].Error(), "dlora_a") {
			t.Errorf("warm-up of %d steps; taken off: %v", warmup, sum.Wrong)
		}
	}
}
