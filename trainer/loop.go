package trainer

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/optim"
)

// Summary is what a run came to.
type Summary struct {
	Steps       int           // done
	Interrupted bool          // the context ended before the last step
	First, Last Step          // zero without steps
	Before      *Eval         // nil without held-out rows
	After       *Eval         // likewise, and nil when interrupted
	Out         string        // the folder saved; empty without one
	Report      *core.Report  // which kernel went where
	Elapsed     time.Duration // training and evaluation, without loading
}

// Run patches the model, trains it, evaluates it before, on the way and after, and saves
// it. When ctx ends, the step at hand is finished, and the model is saved as it is then;
// that is not an error, except while auto still measures kernels. The output folder is claimed before the first step, and appears
// under its name only when it is complete.
func (j *Job) Run(ctx context.Context) (*Summary, error) {
	c := j.Config
	if err := c.Validate(); err != nil {
		return nil, err
	}
	simd.SetThreads(c.Threads)
	out, err := newOutput(c.Out)
	if err != nil {
		return nil, err
	}
	defer out.abort()
	s := &Summary{}
	reg := j.Registry
	if reg == nil {
		reg = core.NewRegistry()
	}
	plan, err := measure.Plan(ctx, j.Model, reg, c.Kernels, measure.Run{Memory: j.Memory, Batch: c.Batch, Seq: c.Seq}, j.Measure)
	if err != nil {
		return nil, err
	}
	if s.Report, err = plan.Apply(); err != nil {
		return nil, err
	}
	call(j.Hooks.OnPatch, s.Report)
	e, err := NewEngine(j.Model, j.Memory, EngineConfig{Batch: c.Batch, Seq: c.Seq, Accumulate: c.Accumulate, Clip: c.Clip, Seed: c.Seed,
		Optim: optim.Config{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: c.WeightDecay}, GradientCheckpointing: c.GradientCheckpointing})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	start := time.Now()
	if err := j.loop(ctx, e, out, s); err != nil {
		return nil, err
	}
	s.Elapsed = time.Since(start)
	if s.Out, err = out.commit(j); err == nil && s.Out != "" {
		call(j.Hooks.OnSave, s.Out)
	}
	return s, err
}

// loop runs the steps and the evaluations.
func (j *Job) loop(ctx context.Context, e *Engine, out *output, s *Summary) error {
	c := j.Config
	loader, err := data.NewLoader(j.Train, c.Batch, c.Seed)
	if err != nil {
		return err
	}
	steps := c.Steps
	if steps == 0 {
		steps = max(1, int(math.Ceil(c.Epochs*float64(len(j.Train))/float64(c.Batch*c.Accumulate))))
	}
	schedule := optim.Schedule{Decay: c.Schedule, Peak: c.LR, Warmup: min(c.Warmup, steps), Steps: steps}
	if err := schedule.Validate(); err != nil {
		return err
	}
	start := Start{Model: j.Model.Config.ModelType, Parameters: j.Model.Elems(), Rows: len(j.Train), EvalRows: len(j.Eval), Steps: steps, Config: c}
	out.log(start)
	call(j.Hooks.OnStart, start)
	if s.Before, err = j.evaluate(ctx, e, out, 0); err != nil {
		return err
	}
	// A step is never cut short by the end of ctx, which is seen between steps.
	whole, stop := abortable(context.WithoutCancel(ctx), j.Abort)
	defer stop()
	for s.Steps < steps && ctx.Err() == nil {
		step, err := j.step(whole, e, loader, s.Steps, schedule.At(s.Steps))
		if err != nil {
			return fmt.Errorf("step %d: %w", s.Steps+1, err)
		}
		if s.Steps == 0 {
			s.First = step
		}
		s.Steps, s.Last = step.Step, step
		out.log(step)
		call(j.Hooks.OnStep, step)
		if quarter := max(1, steps/4); s.Steps%quarter == 0 && steps-s.Steps >= quarter && steps >= 40 {
			if _, err := j.evaluate(ctx, e, out, s.Steps); err != nil {
				return err
			}
		}
	}
	if s.Steps < steps { // whoever interrupts wants the end: what there is is saved at once
		s.Interrupted = true
		return whole.Err()
	}
	if s.After, err = j.evaluate(whole, e, out, s.Steps); err == nil {
		err = whole.Err() // set if Abort was closed meanwhile
	}
	return err
}

// abortable returns a context that ends when abort is closed.
func abortable(ctx context.Context, abort <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-abort:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

func (j *Job) step(ctx context.Context, e *Engine, loader *data.Loader, i int, lr float64) (Step, error) {
	begin := time.Now()
	batches := make([]data.Batch, j.Config.Accumulate)
	for k := range batches {
		batches[k] = loader.Next()
	}
	r, err := e.Step(ctx, batches, lr)
	if err == nil && j.Config.Strict {
		err = j.fellBack()
	}
	if err != nil {
		return Step{}, err
	}
	return Step{Step: i + 1, Loss: r.Loss, LR: lr, GradNorm: r.GradNorm, TokensPer: float64(r.Tokens) / time.Since(begin).Seconds()}, nil
}

// fellBack is the error of a strict run in which the reference answered for a kernel.
func (j *Job) fellBack() error {
	if j.Registry == nil {
		return nil
	}
	for _, k := range j.Registry.Kernels() {
		if r, ok := k.(core.HealthReporter); ok && r.Health().Fallbacks > 0 {
			return fmt.Errorf("trainer: strict: kernel %s fell back to the reference: %s", k.Info().Name, r.Health().LastError)
		}
	}
	return nil
}

// evaluate returns nil without held-out rows, and when ctx ends meanwhile.
func (j *Job) evaluate(ctx context.Context, e *Engine, out *output, step int) (*Eval, error) {
	if len(j.Eval) == 0 {
		return nil, nil
	}
	loss, targets, err := e.Evaluate(ctx, data.Batches(j.Eval, j.Config.Batch))
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evaluation after step %d: %w", step, err)
	}
	eval := Eval{Step: step, Loss: loss, Targets: targets}
	out.log(eval)
	call(j.Hooks.OnEval, eval)
	return &eval, nil
}
