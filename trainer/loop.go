package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/metric"
	"github.com/seed98097648/tune/trainer/optim"
)

// Summary is what a run came to. That of a run that was resumed is of the whole of it.
type Summary struct {
	Steps       int     // done
	Interrupted bool    // the context, or Config.MaxTime, ended before the last step
	Stopped     bool    // evaluations have not become better for so long; see Checkpoints.Patience
	TimeUp      bool    // it was Config.MaxTime
	First, Last Step    // zero without steps
	Loss        float64 // the mean of all steps' losses, as train_loss in transformers; 0 without steps
	Before      *Eval   // nil without held-out rows
	After       *Eval   // likewise, and nil when interrupted
	Best        *Eval   // the best after a step, nil if there was none
	Loaded      bool    // the model saved is that of Best
	Out         string  // the folder saved, which is another than that of the Config if the error is a checkpoint.KeptError; empty without one
	Checkpoint  string  // the newest checkpoint; empty without one

	BestCheckpoint string // that of Best; empty without one

	Report  *core.Report        // which kernel went where, and which was taken off
	Checked crosscheck.Stats    // the comparisons of kernels with the plain forward; see Config.CheckEvery
	Wrong   []*core.KernelError // the kernels that were taken off for what they gave
	Waited  time.Duration       // by this rank for others, in all steps
	Elapsed time.Duration       // training and evaluation, without loading and what was done before resuming
}

// session is one process's part of a run.
type session struct {
	job        *Job
	engine     *Engine
	check      *crosscheck.Checker // nil without
	referred   bool                // log-probabilities of the reference were computed, not read
	stale      bool                // what was done before training was with a kernel that is wrong
	widened    []string            // what was said to be saved as float32
	batch      int                 // rows of a batch of this rank
	accumulate int                 // batches of a step of this rank
	out        *output
	loader     *data.Loader
	lengths    []int // see EngineConfig
	epoch      epoch
	schedule   optim.Schedule
	state      State
	logged     int      // bytes of the training log before the newest evaluation
	losses     float64  // of all steps, added up
	saved      int      // the step of the newest checkpoint
	best       [][]byte // what is trained, as it was at the best evaluation; nil unless Checkpoints.LoadBest has no checkpoints
	sum        *Summary
	journal    *recorder
	scores     scores // of Config.Metric
}

// Run patches the model, trains it, evaluates it before, on the way and after, and saves
// it. When ctx ends, the step at hand is finished, and the model is saved as it is then;
// that is not an error, except while kernels are still verified or measured. The output folder is
// claimed before the first step, and appears under its name only when it is complete; with
// checkpoints it is there from the start and holds those meanwhile. Job.Resume tells what
// resuming changes.
//
// A model that cannot be saved where it should be is saved elsewhere, and the error, beside
// the summary, is a *checkpoint.KeptError that says where; see Job.Unsaved.
//
// Jobs may run at the same time, if all have the same Threads, which they share: the results
// do not depend on it.
func (j *Job) Run(ctx context.Context) (_ *Summary, err error) {
	if err := cmp.Or(j.complete(), j.CheckEval()); err != nil {
		return nil, err
	}
	j.Config.Checkpoints = j.Config.Checkpoints.inSteps(epochOf(j.Train.Len(), j.Config).steps())
	if j.Resume != nil {
		if err := j.Resume.Check(j.Config); err != nil {
			return nil, err
		}
	}
	release, err := j.prepare()
	if err != nil {
		return nil, err
	}
	defer release()
	out, err := j.newOutput()
	if err != nil {
		return nil, err
	}
	defer out.abort()
	r := &session{job: j, out: out, sum: &Summary{}}
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if r.engine, err = NewEngine(j.Model, j.Memory, r.engineConfig()); err != nil {
		return nil, err
	}
	defer r.engine.Close()
	rec := r.record()
	defer func() { rec.close(err) }()
	if err := r.refer(ctx); err != nil {
		return nil, err
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	memory.GiveBack() // what it took to load the model and the data
	start := clock.Now()
	err = r.loop(ctx)
	// A last evaluation that fails does not undo the training.
	if err != nil && (r.state.Step < r.state.Steps || errors.Is(err, context.Canceled)) {
		return nil, err
	}
	r.sum.Elapsed = clock.Since(start)
	return r.sum, errors.Join(err, r.finish(ctx))
}

// complete refuses a job that lacks something or whose configuration makes no sense, and fills in the defaults.
func (j *Job) complete() error {
	if j.Model == nil || j.Memory == nil || rowsIn(j.Train) == 0 {
		return errors.New("trainer: a job needs a Model, the Memory that it is in, and rows in Train; Load makes one of files")
	}
	if err := j.Config.Validate(); err != nil {
		return err
	}
	j.Config = j.Config.WithDefaults()
	return nil
}

// ready does what comes before the engine: ranks are compared, and the kernels are in place.
func (r *session) ready(ctx context.Context) (err error) {
	j, c := r.job, r.job.Config
	if r.batch, r.accumulate, err = c.share(j.World); err != nil {
		return err
	}
	if err := r.checkRanks(); err != nil {
		return err
	}
	if r.check = crosscheck.New(c.CheckEvery); r.check != nil {
		r.check.Strict, r.check.OnWrong = c.Strict, r.onWrong
	}
	if r.loader, r.lengths, err = j.Deal(); err != nil {
		return err
	}
	if err := r.patch(ctx); err != nil {
		return err
	}
	if err := r.checkMemory(); err != nil {
		return err
	}
	return r.ask()
}

// engineConfig is what the engine is made of.
func (r *session) engineConfig() EngineConfig {
	c := r.job.Config.Engine()
	c.Batch, c.Accumulate, c.Check, c.Lengths = r.batch, r.accumulate, r.check, r.lengths
	c.World, c.Reduce = r.job.World, r.job.Config.Ranks.Reduce
	if r.scores.name == metric.TokenAccuracy {
		c.Seen = r.scores.see
	}
	return c
}

// prepare has the model and the threads compute as the configuration says, the latter until release.
func (j *Job) prepare() (release func(), err error) {
	c := j.Config
	if err := j.Model.SetObjective(c.Objective); err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	if err := j.Model.Round(c.Precision.Products()); err != nil {
		return nil, fmt.Errorf("trainer.Config.Precision is %s: %w", c.Precision, err)
	}
	if release, err = simd.Use(c.Threads); err != nil {
		return nil, fmt.Errorf("trainer.Config.Threads is %d: %w", c.Threads, err)
	}
	return release, nil
}

// What ends a run before its last step; of several ranks, on any.
const (
	goesOn byte = iota
	timeUp
	asked // by the end of a context
)

// loop runs the steps, the evaluations and the checkpoints that are left to do.
func (r *session) loop(ctx context.Context) error {
	// A step is never cut short by the end of ctx, which is seen between steps.
	whole, stop := abortable(context.WithoutCancel(ctx), r.job.Abort)
	defer stop()
	begin, from := clock.Now(), r.state.Step
	for {
		last := r.state.Step == r.state.Steps
		within := ctx // whoever interrupts wants the end: what there is is saved at once
		if last || r.job.World != nil {
			within = whole
		}
		if err := r.evaluateIfDue(within); err != nil {
			return err
		}
		select {
		case <-r.job.Abort: // which whole may not know yet
			return context.Canceled
		default:
		}
		reason := goesOn
		switch limit := r.job.Config.MaxTime; {
		case last:
		case ctx.Err() != nil:
			reason = asked
		case limit > 0 && r.state.Step > from && clock.Since(begin) >= limit:
			reason = timeUp
		}
		reason, err := r.most("whether to go on", reason)
		if err != nil {
			return err
		}
		interrupted := reason != goesOn
		r.sum.TimeUp = reason == timeUp
		patience := r.job.Config.Checkpoints.Patience
		r.sum.Stopped = patience > 0 && r.state.NoBetter >= patience && !last
		r.checkpointIfDue(interrupted || r.sum.Stopped)
		if r.sum.Interrupted = interrupted && !r.sum.Stopped; interrupted || r.sum.Stopped || last {
			return nil
		}
		if err := r.step(whole); err != nil {
			return fmt.Errorf("step %d: %w", r.state.Step+1, err)
		}
	}
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

// step runs one optimizer step.
func (r *session) step(ctx context.Context) error {
	begin, lr := clock.Now(), r.schedule.At(r.state.Step)
	dealt := r.epoch.batchesOf(r.state.Step)
	batches, err := r.loader.Share(dealt, r.batch, r.job.World.Rank(), r.job.World.Size())
	if err = agree(r.job.World, err); err != nil {
		return err
	}
	if r.check.Tick(); r.changesFirst(r.state.Step - 1) {
		// Until then the weights were those that a kernel may have kept, and an adapter's B was 0, and with it
		// whatever A has a part in.
		r.check.Again()
	}
	var done StepResult
	err = r.rightly(func() (err error) {
		if err := r.beginAgain(ctx); err != nil {
			return err
		}
		return Compared(r.check, func() (err error) {
			done, err = r.engine.Step(ctx, batches, lr)
			return err
		})
	})
	if err == nil && r.job.Config.Strict {
		err = r.job.fellBack()
	}
	if err != nil {
		return err
	}
	s := &r.state
	s.Step++
	s.Batches += dealt
	s.Epoch = float64(s.Batches) / float64(r.epoch.batches)
	took := clock.Since(begin)
	s.Last = Step{Step: s.Step, Loss: done.Loss, LR: lr, GradNorm: done.GradNorm, TokensPer: float64(done.Tokens) / took.Seconds(),
		Tokens: done.Tokens, Took: took, Update: done.Optimizer, Metrics: done.Metrics, Ranks: done.Ranks}
	if s.Step == 1 {
		s.First = s.Last
	}
	r.losses += done.Loss
	r.sum.Waited += done.Ranks.Waited
	if r.syncDue() {
		if err := r.inSync(); err != nil {
			return err
		}
	}
	r.out.log(s.Last)
	call(r.job.Hooks.OnStep, s.Last)
	return nil
}

// changesFirst reports whether the step after n others has a learning rate, and the one before it had none.
func (r *session) changesFirst(n int) bool {
	return n >= 0 && r.schedule.At(n) > 0 && (n == 0 || r.schedule.At(n-1) == 0)
}

// fellBack is the error of a strict run in which the reference answered for a kernel.
func (j *Job) fellBack() error {
	for _, k := range j.Registry.Kernels() {
		if h := core.HealthOf(k); h.Fallbacks > 0 {
			return fmt.Errorf("trainer: strict: kernel %s fell back to the reference: %s", k.Info().Name, h.LastError)
		}
	}
	return nil
}

// evaluateIfDue evaluates, unless there are no held-out rows, it is not the time, it was
// done before the run was resumed, or ctx ends meanwhile.
func (r *session) evaluateIfDue(ctx context.Context) error {
	j, s := r.job, &r.state
	if rowsIn(j.Eval) == 0 || !j.Config.Checkpoints.evalDue(s.Step, s.Steps, r.epoch) || s.Eval != nil && s.Eval.Step == s.Step {
		return nil
	}
	var e *Eval
	err := r.rightly(func() error {
		if err := r.beginAgain(ctx); err != nil {
			return err
		}
		return Compared(r.check, func() (err error) {
			e, err = r.evaluate(ctx)
			return err
		})
	})
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("evaluation after step %d: %w", s.Step, err)
	}
	s.Eval = e
	if s.Step == 0 {
		s.Before = s.Eval
	} else {
		r.rank()
	}
	r.logged = r.out.lines.Len()
	r.out.log(s.Eval)
	call(j.Hooks.OnEval, *s.Eval)
	return nil
}
