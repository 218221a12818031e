package trainer_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

func atOnce(c *trainer.EngineConfig) { c.UpdateInBackward = true }

func unclipped(c *trainer.EngineConfig) { c.Clip = 0 }

// TestUpdatingInTheBackwardPassChangesNoBit is of runs without clipping, plain, with layers that are computed
// again, where reading a weight after its update would show, and with plugins.
func TestUpdatingInTheBackwardPassChangesNoBit(t *testing.T) {
	mem := plugintest.Memory(t)
	kernels := all(t, plugintest.Scan(t, transport.Options{}))
	for name, patch := range map[string]func(*models.Model){"plain": nil, "kernels": kernels} {
		for _, checkpointing := range []bool{false, true} {
			again := func(c *trainer.EngineConfig) { c.GradientCheckpointing = checkpointing }
			got := newRun(t, mem, patch, again, unclipped, atOnce).steps(4)
			want := newRun(t, mem, patch, again, unclipped).steps(4)
			if t.Run(name, func(t *testing.T) { sameBits(t, got, want) }); got.engine.Program().Bytes() >= want.engine.Program().Bytes() {
				t.Errorf("%s: %d bytes of activations and gradients, no less than %d", name, got.engine.Program().Bytes(),
					want.engine.Program().Bytes())
			}
		}
	}
}

// TestPartsOfAGradientChangeNoBit: of a large gradient, as that of a head or of experts, a part is used after the other;
// where the head is the embedding, all but the rows of the batch's tokens.
func TestPartsOfAGradientChangeNoBit(t *testing.T) {
	tied := strings.NewReplacer(`"hidden_size": 32`, `"hidden_size": 256, "tie_word_embeddings": true`).Replace(tiny)
	for name, config := range map[string]string{"experts": tiny, "tied": tied} {
		for _, kind := range optim.Kinds() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				of := func(c *trainer.EngineConfig) { c.Optim.Kind, c.Optim.WeightDecay = optim.Kind(kind), 0.1 }
				elements := optim.Config{Kind: optim.Kind(kind)}.Unit() > 0
				want := newRunOf(t, config, autograd.Heap{}, nil, of, unclipped).steps(3)
				whole := newRunOf(t, config, autograd.Heap{}, nil, of, unclipped, atOnce).steps(3)
				defer trainer.PartsOf(0)
				trainer.PartsOf(1100)
				got := newRunOf(t, config, autograd.Heap{}, nil, of, unclipped, atOnce).steps(3)
				sameBits(t, got, want)
				// What computes parts is a call of its own. Of experts, each is a tensor, of which all optimizers can do with one.
				more, experts := calls(got)-calls(whole), 3*2
				if more < experts || (more > experts) != elements {
					t.Errorf("%d more calls than for whole gradients, %d of them for experts; want some for others: %v", more, experts, elements)
				}
				r, err := got.engine.Step(t.Context(), got.next(), 0)
				if err != nil {
					t.Fatal(err)
				}
				plain, err := want.engine.Step(t.Context(), want.next(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if !(math.Abs(r.GradNorm-plain.GradNorm) <= 1e-12*plain.GradNorm) {
					t.Errorf("norm %v, want %v", r.GradNorm, plain.GradNorm)
				}
			})
		}
	}
}

// calls counts those of all instructions.
func calls(r *run) (n int) {
	for _, s := range r.engine.Program().Stats() {
		n += s.Calls
	}
	return n
}

// TestClippingGoesByTheNormOfTheStepBefore compares with a run whose learning rates make up for it: SGD's step
// is proportional to both. The passes of a trial change nothing of that, and are made where they have a use: for the norm of
// the first step, and where kernels are compared.
func TestClippingGoesByTheNormOfTheStepBefore(t *testing.T) {
	t.Run("plain", func(t *testing.T) { clippedByTheStepBefore(t, nil, 1) })
	t.Run("compared in each other step", func(t *testing.T) { clippedByTheStepBefore(t, crosscheck.New(2), 2) })
}

func clippedByTheStepBefore(t *testing.T, check *crosscheck.Checker, trials int) {
	sgd := func(c *trainer.EngineConfig) { c.Optim.Kind, c.Clip, c.Check = optim.SGD, 0.5, check }
	got, want := newRun(t, autograd.Heap{}, nil, sgd, atOnce), newRun(t, autograd.Heap{}, nil, sgd, unclipped)
	norm, ofStep := 0.0, 0
	for i := range 4 {
		check.Tick()
		b := got.next()
		r, err := got.engine.Step(t.Context(), b, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		if norm == 0 {
			norm = r.GradNorm // of the first step itself
		}
		plain, err := want.engine.Step(t.Context(), b, 0.1*optim.ClipCoefficient(norm, 0.5))
		if err != nil {
			t.Fatal(err)
		}
		if norm <= 0.5 {
			t.Fatalf("step %d: a norm of %g is not clipped at all", i, norm)
		}
		if !(math.Abs(r.Loss-plain.Loss) <= 1e-5) || !(math.Abs(r.GradNorm-plain.GradNorm) <= 1e-4*plain.GradNorm) {
			t.Errorf("step %d: loss %g and norm %g, want %g and %g", i, r.Loss, r.GradNorm, plain.Loss, plain.GradNorm)
		}
		norm = r.GradNorm
		if i == 0 {
			ofStep = calls(got) / 2 // it was tried
		}
	}
	if n := calls(got); n != (4+trials)*ofStep {
		t.Errorf("%d calls in 4 steps of %d, want those of %d steps", n, ofStep, 4+trials)
	}
}

// TestPreferencesAreTheSameWhenUpdatedAtOnce: each step has its own metrics, whatever passes it took.
func TestPreferencesAreTheSameWhenUpdatedAtOnce(t *testing.T) {
	var want []map[string]float64
	for _, atOnce := range []bool{false, true} {
		var got []map[string]float64
		j := job(t)
		preferring(t, j, preference.Config{Stage: preference.DPO})
		j.Config.Steps, j.Config.Clip, j.Config.Optimizer.UpdateInBackward = 3, 0, atOnce
		j.Hooks.OnStep = func(s trainer.Step) {
			got = append(got, s.Metrics.Named())
			got[len(got)-1]["loss"] = s.Loss
		}
		if run1(t, j); want == nil {
			want = got
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("updated at once: %v, want %v", got, want)
		}
	}
}

// spoils is a kernel whose gradient is wrong from some call on.
type spoils struct {
	core.Kernel
	calls *int
	from  int
	with  float32
}

func (s spoils) Backward(ctx context.Context, c *core.Call) error {
	err := s.Kernel.Backward(ctx, c)
	if *s.calls++; *s.calls >= s.from && err == nil {
		c.Out[0].Float32s()[0] = s.with
	}
	return err
}

// TestAWrongKernelIsTakenOffBeforeAnythingIsUpdated: the step in which kernels are compared is tried before.
func TestAWrongKernelIsTakenOffBeforeAnythingIsUpdated(t *testing.T) {
	reg := core.NewRegistry()
	if err := reg.Register(spoils{reference.Kernel(core.RMSNorm), new(int), 1, 100}); err != nil {
		t.Fatal(err)
	}
	j := job(t)
	j.Config.Kernels, j.Registry, j.Config.Optimizer.UpdateInBackward = "all", reg, true
	got := run1(t, j)
	plain := job(t)
	plain.Config.Optimizer.UpdateInBackward = true
	if want := run1(t, plain); len(got.Wrong) != 1 || got.Last.Loss != want.Last.Loss {
		t.Errorf("%d wrong kernels, last loss %g; want 1 and that of a run without it, %g", len(got.Wrong), got.Last.Loss, want.Last.Loss)
	}
}

// spoilsHead is a kernel whose first complete gradient, that of the head, is no number from some call on.
type spoilsHead struct{ spoils }

func (s spoilsHead) Backward(ctx context.Context, c *core.Call) error {
	err := s.Kernel.Backward(ctx, c)
	if *s.calls++; *s.calls >= s.from && err == nil {
		c.Output("dweight").Float32s()[0] = s.with
	}
	return err
}

// TestAStepThatFailsBeforeItsFirstUpdateIsNotCounted: it is made again without the kernel, and its checkpoint has as
// many steps as were made.
func TestAStepThatFailsBeforeItsFirstUpdateIsNotCounted(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	run := func(steps int, k core.Kernel) *trainer.Summary {
		reg := core.NewRegistry()
		if err := reg.Register(k); err != nil {
			t.Fatal(err)
		}
		j := long(t, out)
		j.Config.Steps, j.Config.Schedule, j.Config.Optimizer.UpdateInBackward, j.Config.Clip = steps, optim.Constant, true, 0
		j.Config.Kernels, j.Registry = "all", reg
		return run1(t, resumed(t, j))
	}
	right := reference.Kernel(core.LinearCrossEntropy)
	if got := run(7, spoilsHead{spoils{right, new(int), 5, float32(math.NaN())}}); len(got.Wrong) != 1 {
		t.Fatalf("%d kernels are wrong", len(got.Wrong))
	}
	run(9, right)
}

// TestAStepInPartIsNotMadeAgain: an infinity in the last layers' gradients of the second step comes after the head
// was updated.
func TestAStepInPartIsNotMadeAgain(t *testing.T) {
	calls, reg := new(int), core.NewRegistry()
	if err := reg.Register(spoils{reference.Kernel(core.SwiGLU), calls, 3, float32(math.Inf(1))}); err != nil {
		t.Fatal(err)
	}
	r := newRun(t, autograd.Heap{}, func(m *models.Model) {
		if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all"); err != nil {
			t.Fatal(err)
		}
	}, unclipped, atOnce)
	var err error
	for range 10 {
		if _, err = r.engine.Step(t.Context(), r.next(), 1e-3); err != nil {
			break
		}
	}
	if !errors.Is(err, trainer.ErrNonFinite) || !strings.Contains(err.Error(), "go on from a checkpoint") {
		t.Fatalf("error %v", err)
	}
	seen := *calls
	if _, again := r.engine.Step(t.Context(), r.next(), 1e-3); again == nil || *calls != seen {
		t.Errorf("the step is made again: %v", again)
	}
	if wrong := (&core.KernelError{Err: &crosscheck.Mismatch{}}); crosscheck.Wrong(wrong) == nil ||
		crosscheck.Wrong(trainer.InPart(wrong)) != nil {
		t.Error("the error asks for the kernel to be taken off")
	}
}

func TestSumsOfBatchesAreNotUpdatedAtOnce(t *testing.T) {
	c := trainer.Default()
	c.Accumulate, c.Optimizer.UpdateInBackward = 2, true
	m, _ := engine(t, 2, 1)
	config := c.Engine()
	_, err := trainer.NewEngine(m, autograd.Heap{}, config)
	for _, err := range []error{c.Validate(), err} {
		if err == nil || !strings.Contains(err.Error(), "take one larger batch") {
			t.Errorf("error %v", err)
		}
	}
}
