package trainer

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/checkpoint"
)

// Checkpoints says when a run evaluates and what it keeps on the way, so that it can be
// resumed. A checkpoint is a model folder of its own, Out/checkpoint-N after N steps, with
// the optimizer's state and everything else that the rest of the run depends on.
type Checkpoints struct {
	SaveEvery int  `json:"save_every"`                 // steps; 0 for no checkpoints
	Keep      int  `json:"keep"`                       // newest checkpoints that stay, besides the best; 0 for all
	EvalEvery int  `json:"eval_every,omitempty"`       // steps; 0 for a quarter of the run
	NoEval    bool `json:"no_eval,omitempty"`          // evaluate nothing
	LoadBest  bool `json:"load_best_at_end,omitempty"` // the model saved at the end is that of the best evaluation

	// SaveEpochs and EvalEpochs say it in passes over the data, or parts of one, and come before the steps, which Run
	// sets to about as many; 0 for steps.
	SaveEpochs float64 `json:"save_epochs,omitempty"`
	EvalEpochs float64 `json:"eval_epochs,omitempty"`

	// Patience ends the run after so many evaluations, one after another, of which none is better than the best before
	// by more than Threshold; 0 for never.
	Patience  int     `json:"early_stopping,omitempty"`
	Threshold float64 `json:"early_stopping_threshold,omitempty"`
}

// inSteps returns c with what it has in epochs of so many steps said in whole steps, for what need not be exact.
func (c Checkpoints) inSteps(epoch int) Checkpoints {
	if c.SaveEpochs > 0 {
		c.SaveEvery = max(1, int(math.Round(c.SaveEpochs*float64(epoch))))
	}
	if c.EvalEpochs > 0 {
		c.EvalEvery = max(1, int(math.Round(c.EvalEpochs*float64(epoch))))
	}
	return c
}

// saves reports whether there are to be checkpoints.
func (c Checkpoints) saves() bool { return c.SaveEvery > 0 || c.SaveEpochs > 0 }

func (c Checkpoints) validate(out string) error {
	var errs []error
	for _, n := range []struct {
		field string
		value int
	}{{"SaveEvery", c.SaveEvery}, {"Keep", c.Keep}, {"EvalEvery", c.EvalEvery}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("trainer.Checkpoints.%s is %d, must not be negative", n.field, n.value))
		}
	}
	for _, n := range []struct {
		field string
		value float64
	}{{"SaveEpochs", c.SaveEpochs}, {"EvalEpochs", c.EvalEpochs}, {"Threshold", c.Threshold}, {"Patience", float64(c.Patience)}} {
		if !(n.value >= 0) || math.IsInf(n.value, 0) {
			errs = append(errs, fmt.Errorf("trainer.Checkpoints.%s is %g, must not be negative", n.field, n.value))
		}
	}
	if c.saves() && out == "" {
		errs = append(errs, errors.New("trainer.Checkpoints.SaveEvery is given without trainer.Config.Out: name the folder for the checkpoints"))
	}
	return errors.Join(errs...)
}

// due reports whether what comes every so many epochs, or else steps, comes after a step: of parts of an epoch that are
// no whole steps, after the nearest one, so that it comes at the end of every epoch that they add up to.
func (e epoch) due(step int, epochs float64, every int) bool {
	if epochs == 0 {
		return every > 0 && step%every == 0
	}
	part := epochs * float64(e.steps())
	return step == int(math.Round(math.Round(float64(step)/part)*part))
}

// evalDue reports whether a run of so many steps evaluates after one of them: at both
// ends, and on the way at every quarter of a run that is long enough unless told otherwise.
func (c Checkpoints) evalDue(step, steps int, of epoch) bool {
	const enough = 40 // steps for evaluations on the way by default
	switch {
	case c.NoEval:
		return false
	case step == 0 || step == steps:
		return true
	case c.EvalEvery > 0:
		return of.due(step, c.EvalEpochs, c.EvalEvery)
	}
	quarter := max(1, steps/4)
	return steps >= enough && step%quarter == 0 && steps-step >= quarter
}

// checkpointIfDue writes a checkpoint after every so many steps, after the last, after an
// evaluation that is better than all before, and when the run is interrupted. A checkpoint
// that cannot be written is no reason to lose the run: the older ones stay, and the run
// goes on.
func (r *session) checkpointIfDue(interrupted bool) {
	step, c := r.state.Step, r.job.Config.Checkpoints
	due := r.epoch.due(step, c.SaveEpochs, c.SaveEvery) || step == r.state.Steps || interrupted ||
		r.state.Best != nil && r.state.Best.Step == step
	if c.SaveEvery == 0 || step == 0 || step == r.saved || !due {
		return
	}
	all, err := r.engine.optimizerState()
	if !r.leads() {
		return
	}
	path := checkpoint.StepDir(r.out.path, step)
	if err == nil {
		err = r.writeCheckpoint(path, all)
	}
	if err != nil {
		call(r.job.Hooks.OnWarning, fmt.Errorf("step %d: no checkpoint was saved, the run goes on: %w", step, err))
		return
	}
	r.saved, r.sum.Checkpoint = step, path
	call(r.job.Hooks.OnCheckpoint, Checkpoint{step, path})
	var keep []int
	if r.state.Best != nil {
		keep = append(keep, r.state.Best.Step)
	}
	if err := r.out.run.Rotate(r.job.Config.Checkpoints.Keep, keep...); err != nil {
		call(r.job.Hooks.OnWarning, err)
	}
}

func (r *session) writeCheckpoint(path string, all []checkpoint.Named) (err error) {
	f, err := checkpoint.NewFolder(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Abort()) }() // which does nothing after a commit
	model, err := r.job.Model.Saved()
	if err != nil {
		return err
	}
	r.warnOfWidened(model)
	if err := writeModel(f, model, r.job.Files); err != nil {
		return err
	}
	if err := writeMaster(f, r.job.Model); err != nil {
		return err
	}
	if err := r.engine.writeOptimizer(f, all); err != nil {
		return err
	}
	if ref := r.engine.reference; ref != nil {
		text, err := ref.marshal()
		if err != nil {
			return err
		}
		if err := f.WriteFile(referenceFile, text); err != nil {
			return err
		}
	}
	if err := f.WriteFile(LogFile, r.out.lines.Bytes()); err != nil {
		return err
	}
	if err := r.state.write(f); err != nil {
		return err
	}
	return f.Commit()
}
