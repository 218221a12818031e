package trainer_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// engine compiles a fresh tiny model for batches of n rows.
func engine(t *testing.T, n, accumulate int) (*models.Model, *trainer.Engine) {
	t.Helper()
	m, err := models.New([]byte(tiny), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	e, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: n, Seq: 17, Accumulate: accumulate, Clip: 1, Optim: optim.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return m, e
}

// TestAccumulatedBatchesEqualOneLargeBatch splits four rows with unequal numbers of
// targets in every way. The sums are the same numbers in another order.
func TestAccumulatedBatchesEqualOneLargeBatch(t *testing.T) {
	all := rows(t, 17)[:4]
	for i := range all[1].Labels[:12] {
		all[1].Labels[i] = data.Ignore
	}
	type outcome struct{ loss, norm, after float64 }
	var want outcome
	for _, split := range []int{1, 2, 4} {
		_, e := engine(t, 4/split, split)
		var batches []data.Batch
		for b := range data.Batches(all, 4/split) {
			batches = append(batches, b)
		}
		r, err := e.Step(t.Context(), batches, 1e-3)
		if err != nil {
			t.Fatal(err)
		}
		next, err := e.Step(t.Context(), batches, 1e-3) // with the parameters that the first has made
		if err != nil {
			t.Fatal(err)
		}
		got := outcome{r.Loss, r.GradNorm, next.Loss}
		if split == 1 {
			want = got
			continue
		}
		if !(math.Abs(got.loss-want.loss) <= 1e-6) || !(math.Abs(got.norm/want.norm-1) <= 1e-6) ||
			!(math.Abs(got.after-want.after) <= 1e-6) || !(got.after < got.loss) {
			t.Errorf("%d batches: loss, norm and loss of the next step %v, one batch: %v", split, got, want)
		}
	}
}

func TestAStepTakesNoMoreBatchesThanItAccumulates(t *testing.T) {
	_, e := engine(t, 2, 2)
	for b := range data.Batches(rows(t, 17)[:2], 2) {
		for n, batches := range [][]data.Batch{{}, {b}, {b, b}, {b, b, b}} {
			if _, err := e.Step(t.Context(), batches, 1e-3); (err == nil) != (n == 1 || n == 2) {
				t.Errorf("%d batches where two make a step: %v", n, err)
			}
		}
	}
}

// TestABatchThatLacksSomethingIsNoStep: what it lacks would be that of the batch before.
func TestABatchThatLacksSomethingIsNoStep(t *testing.T) {
	for name, change := range map[string]func(b *data.Batch){
		"IDs":                func(b *data.Batch) { b.IDs = nil },
		"half of the labels": func(b *data.Batch) { b.Labels = b.Labels[:17] },
		"twice the labels":   func(b *data.Batch) { b.Labels = append(b.Labels[:34:34], b.Labels...) },
		"positions":          func(b *data.Batch) { b.Positions = nil },
		"segments":           func(b *data.Batch) { b.Segments = nil },
		"forks of a row":     func(b *data.Batch) { b.Forks = make([][]int32, 1) },
		"tokens":             func(b *data.Batch) { b.S = 0 },
	} {
		_, e := engine(t, 2, 1)
		for b := range data.Batches(rows(t, 17)[:2], 2) {
			if _, err := e.Step(t.Context(), []data.Batch{b}, 1e-3); err != nil {
				t.Fatal(err)
			}
			change(&b)
			if _, err := e.Step(t.Context(), []data.Batch{b}, 1e-3); err == nil || !strings.Contains(err.Error(), "data: ") {
				t.Errorf("%s: a step gives %v", name, err)
			}
			_, _, err := e.Evaluate(t.Context(), func(yield func(data.Batch) bool) { yield(b) })
			if err == nil || !strings.Contains(err.Error(), "data: ") {
				t.Errorf("%s: an evaluation gives %v", name, err)
			}
		}
	}
}

// TestABatchWithoutTargetsAddsNothing to a step or to an evaluation, and is neither by itself.
func TestABatchWithoutTargetsAddsNothing(t *testing.T) {
	batches := slices.Collect(data.Batches(rows(t, 17)[:4], 2))
	none := batches[1]
	none.Labels = slices.Repeat([]int32{data.Ignore}, len(none.Labels))
	var steps, evals []float64
	for _, of := range [][]data.Batch{{batches[0]}, {none, batches[0]}, {batches[0], none}, {none}} {
		_, e := engine(t, 2, 2)
		eval, targets, evaluation := e.Evaluate(t.Context(), slices.Values(of))
		s, step := e.Step(t.Context(), of, 0)
		if len(of) == 1 && of[0].Targets() == 0 {
			for _, err := range []error{evaluation, step} {
				if err == nil || !strings.Contains(err.Error(), "no targets") {
					t.Errorf("alone: error %v", err)
				}
			}
			continue
		}
		if err := errors.Join(evaluation, step); err != nil || targets != batches[0].Targets() || s.Targets != targets {
			t.Fatalf("%d targets of an evaluation, %d of a step, %v", targets, s.Targets, err)
		}
		steps, evals = append(steps, s.Loss, s.GradNorm), append(evals, eval)
	}
	if !slices.Equal(steps[:2], steps[2:4]) || !slices.Equal(steps[:2], steps[4:]) || evals[0] != evals[1] || evals[0] != evals[2] {
		t.Errorf("losses and norms %v, evaluations %v, want the same each time", steps, evals)
	}
}

func TestAnEngineOfNothingSaysWhatIsMissing(t *testing.T) {
	m, _ := engine(t, 2, 1)
	for name, c := range map[string]struct {
		model *models.Model
		mem   core.Memory
		want  string
	}{
		"no model":  {nil, autograd.Heap{}, "there is no model: pass one of models.Load"},
		"no memory": {m, nil, "there is no memory for a graph: pass one of transport.NewMemory"},
	} {
		_, err := trainer.NewEngine(c.model, c.mem, trainer.EngineConfig{Batch: 2, Seq: 17, Optim: optim.DefaultConfig()})
		_, eval := trainer.NewEvaluator(c.model, c.mem, 2, 17, 17, nil)
		for _, err := range []error{err, eval} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
}

// TestAnEngineThatFailsGivesTheModelBack, though it had a graph already.
func TestAnEngineThatFailsGivesTheModelBack(t *testing.T) {
	m, e := engine(t, 2, 1)
	e.Close()
	_, err := trainer.NewEngine(m, autograd.Heap{}, trainer.EngineConfig{Batch: 2, Seq: 17, Optim: optim.Config{Kind: "adam_mini"}})
	if err == nil || !strings.Contains(err.Error(), "adam_mini") {
		t.Fatalf("error %v", err)
	}
	if err := m.Sites()[0].Hook.Swap(nil); err != nil {
		t.Error(err)
	}
}

// TestAnEngineThatIsOverSaysSo: it makes no graphs again, which would keep the model from being patched.
func TestAnEngineThatIsOverSaysSo(t *testing.T) {
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		end  func(e *trainer.Engine)
		want string
	}{
		"closed":      {(*trainer.Engine).Close, "the engine is closed"},
		"not patched": {func(e *trainer.Engine) { _ = e.Repatch(func() error { return mine }) }, "Engine.Repatch has failed"},
		"panicked": {func(e *trainer.Engine) {
			defer func() { _ = recover() }()
			_ = e.Repatch(func() error { panic(mine) })
		}, "Engine.Repatch has failed"},
		"closed after that": {func(e *trainer.Engine) {
			_ = e.Repatch(func() error { return mine })
			e.Close()
			e.Close()
		}, "the engine is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			m, e := engine(t, 2, 1)
			c.end(e)
			batches := slices.Collect(data.Batches(rows(t, 17)[:2], 2))
			_, step := e.Step(t.Context(), batches, 1e-3)
			_, _, evaluate := e.Evaluate(t.Context(), slices.Values(batches))
			repatch := e.Repatch(func() error { t.Error("patched"); return nil })
			for _, err := range []error{step, evaluate, repatch} {
				closed := strings.HasPrefix(name, "closed")
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, trainer.ErrClosed) != closed {
					t.Errorf("error %v, want %q", err, c.want)
				}
			}
			if err := m.Sites()[0].Hook.Swap(nil); e.Program() != nil || err != nil {
				t.Errorf("graphs %v; %v", e.Program(), err)
			}
		})
	}
}

func TestAClosedEvaluatorSaysSo(t *testing.T) {
	m, e := engine(t, 2, 1)
	e.Close()
	v, err := trainer.NewEvaluator(m, autograd.Heap{}, 2, 17, 17, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	v.Close()
	if _, _, err := v.Loss(t.Context(), data.Batches(rows(t, 17)[:2], 2)); !errors.Is(err, trainer.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// TestFewerBatchesAreAStepOfTheirOwn: gradients of the step before are gone.
func TestFewerBatchesAreAStepOfTheirOwn(t *testing.T) {
	var batches []data.Batch
	for b := range data.Batches(rows(t, 17)[:6], 2) {
		batches = append(batches, b)
	}
	var norms []float64
	for _, accumulate := range []int{1, 2} {
		_, e := engine(t, 2, accumulate)
		if accumulate == 2 {
			if _, err := e.Step(t.Context(), batches[:2], 0); err != nil {
				t.Fatal(err)
			}
		}
		r, err := e.Step(t.Context(), batches[2:], 0)
		if err != nil {
			t.Fatal(err)
		}
		norms = append(norms, r.GradNorm)
	}
	if norms[0] != norms[1] {
		t.Errorf("norms of one batch alone and after others: %v", norms)
	}
}

// TestNaNStopsTheStepAndNamesItsCause poisons one weight. Before any update the learning
// rate cannot be the cause, and is not named as one.
func TestNaNStopsTheStepAndNamesItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		param string
		value float32
		want  string
	}{
		"NaN in a norm":           {"model.layers.1.input_layernorm.weight", float32(math.NaN()), "the weight model.layers.1.input_layernorm.weight has NaN at element 0 of"},
		"infinity in a matrix":    {"model.layers.0.mlp.down_proj.weight", float32(math.Inf(1)), "the weight model.layers.0.mlp.down_proj.weight has an infinity at element 0 of"},
		"overflow in the experts": {"model.layers.1.mlp.experts.gate_up", math.MaxFloat32, "first produced by layers.1.mlp"},
	} {
		t.Run(name, func(t *testing.T) {
			m, e := engine(t, 2, 1)
			for _, p := range m.Params() {
				if p.Name == c.param {
					v := p.Tensor.Float32s()
					for i := range v {
						v[i] = c.value
					}
				}
			}
			for b := range data.Batches(rows(t, 17)[:2], 2) {
				_, err := e.Step(t.Context(), []data.Batch{b}, 1e-3)
				if !errors.Is(err, trainer.ErrNonFinite) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "lower the learning rate") {
					t.Errorf("%v, want that %s is to blame", err, c.want)
				}
				_, _, err = e.Evaluate(t.Context(), data.Batches(rows(t, 17)[:2], 2))
				if !errors.Is(err, trainer.ErrNonFinite) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "lower the learning rate") {
					t.Errorf("evaluation: %v", err)
				}
			}
		})
	}
}

// TestOverflowInTheGradientStopsTheStep has logits of moderate size, made of a norm's tiny
// weight and a huge head, so that the loss is finite and the norm's gradient is not; in the
// first of two micro-batches too, where the second is innocent.
func TestOverflowInTheGradientStopsTheStep(t *testing.T) {
	for _, accumulate := range []int{1, 2} {
		m, e := engine(t, 1, accumulate)
		for _, p := range m.Params() {
			v := p.Tensor.Float32s()
			switch p.Name {
			case "model.norm.weight":
				for i := range v {
					v[i] = 1e-36
				}
			case "lm_head.weight": // one of the first two tokens is always certain
				clear(v)
				for i := range 32 {
					v[i], v[32+i] = math.MaxFloat32, -math.MaxFloat32
				}
			}
		}
		var batches []data.Batch
		for b := range data.Batches(rows(t, 17)[:accumulate], 1) {
			for i := range b.Labels {
				b.Labels[i] = data.Ignore
			}
			b.Labels[1] = int32(5 * (1 - len(batches))) // the second is right to expect token 0 or 1
			batches = append(batches, b)
		}
		before := m.Params()[0].Tensor.Float32s()[7]
		_, err := e.Step(t.Context(), batches, 1e-3)
		if !errors.Is(err, trainer.ErrNonFinite) || !strings.Contains(err.Error(), "gradient norm") || !strings.Contains(err.Error(), "backward") {
			t.Errorf("%d micro-batches: %v", accumulate, err)
		}
		if after := m.Params()[0].Tensor.Float32s()[7]; after != before {
			t.Error("a parameter was changed")
		}
	}
}

// After an update the learning rate may be the cause: of weights that are not finite any
// more, or of ones too large to compute with.
func TestALearningRateThatIsTooHighIsNamed(t *testing.T) {
	for _, c := range []struct {
		lr   float64
		want string
	}{{math.Inf(1), "; the weight model.embed_tokens.weight has "}, {1e30, "("}} {
		_, e := engine(t, 2, 1)
		var err error
		for range 3 {
			for b := range data.Batches(rows(t, 17)[:2], 2) {
				if err == nil {
					_, err = e.Step(t.Context(), []data.Batch{b}, c.lr)
				}
			}
		}
		if !errors.Is(err, trainer.ErrNonFinite) || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "lower the learning rate") {
			t.Errorf("learning rate %g: %v", c.lr, err)
		}
	}
}
