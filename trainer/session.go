package trainer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/placement"
)

// patch places the kernels: those of the run that is resumed, or those that the
// configuration selects.
func (r *session) patch(ctx context.Context) error {
	j, c := r.job, r.job.Config
	reg := j.Registry
	if reg == nil {
		reg = core.NewRegistry()
	}
	var plan *core.Plan
	var err error
	switch {
	case j.Resume != nil:
		plan, err = j.Resume.plan(ctx, j.Model, reg)
	case j.World.Rank() == 0: // for all
		plan, err = measure.Plan(ctx, j.Model, reg, c.Kernels, measure.Run{Memory: j.Memory, Batch: r.batch, Seq: c.Seq,
			Keepless: c.MaxKept < 0}, j.Measure)
	}
	if plan, err = j.placeAlike(ctx, plan, reg, err); err != nil {
		return err
	}
	if r.sum.Report, err = plan.Apply(); err != nil {
		return err
	}
	call(j.Hooks.OnPatch, r.sum.Report)
	r.state.Kernels = r.sum.Report.Placements()
	r.state.Machine = placement.This(reg, r.state.Kernels)
	return r.compareMachines()
}

// begin brings the run to where it starts, or goes on.
func (r *session) begin() error {
	j, c := r.job, r.job.Config
	var err error
	r.epoch, r.schedule = epochOf(j.Train.Len(), c), j.Schedule()
	if err := r.schedule.Validate(); err != nil {
		return err
	}
	steps := r.schedule.Steps
	if r.leads() {
		if err := j.checkDisk(steps); err != nil {
			return err
		}
	}
	r.state.Version, r.state.Sums, r.state.Config, r.state.Steps, r.state.Rows = stateVersion, true, c, steps, j.Train.Len()
	if (c.Checkpoints.SaveEvery > 0 || j.Resume != nil) && j.World == nil { // ranks have compared theirs
		if r.state.Model, r.state.Data, err = j.fingerprint(); err != nil {
			return err
		}
	}
	start := Start{Model: j.Model.Config.ModelType, Trainable: j.Model.Elems(), Rows: j.Train.Len(), EvalRows: rowsIn(j.Eval), Steps: steps, Config: c}
	for _, p := range j.Model.Params() {
		start.Parameters += p.Tensor.Elems()
	}
	if j.Resume == nil {
		r.out.log(start)
	} else if err := r.restore(j.Resume); err != nil {
		return err
	}
	if err := r.inSync(); err != nil {
		return err
	}
	start.Resumed = r.state.Step
	call(j.Hooks.OnStart, start)
	return nil
}

// restore takes over what a checkpoint holds.
func (r *session) restore(from *Resume) error {
	if err := from.checkInputs(r.state.Model, r.state.Data); err != nil {
		return err
	}
	was := from.State
	if r.state.Steps < was.Step {
		return fmt.Errorf("trainer: cannot resume from %s: it has done %d steps, and the run is to have %d", from.Dir, was.Step, r.state.Steps)
	}
	if what := was.Machine.Changed(r.state.Machine); what != nil {
		call(r.job.Hooks.OnWarning, fmt.Errorf("%s changed since the checkpoint: the results can differ from those of an "+
			"uninterrupted run, by rounding", strings.Join(what, " and ")))
	}
	if err := readWeights(r.job.Model, from.Dir); err != nil {
		return fmt.Errorf("trainer: resume: %w", err)
	}
	if err := r.engine.readOptimizer(filepath.Join(from.Dir, optimizerFile), was.Step); err != nil {
		return fmt.Errorf("trainer: resume: %w", err)
	}
	r.engine.atOnce.norm = was.Last.GradNorm
	r.loader.Seek(was.Batches)
	r.state.Step, r.state.Epoch, r.state.Batches = was.Step, was.Epoch, was.Batches
	r.state.First, r.state.Last, r.state.Before, r.state.Eval, r.state.Best = was.First, was.Last, was.Before, was.Eval, was.Best
	r.state.NoBetter = was.NoBetter
	r.losses = lossesIn(from.log)
	r.sum.Checkpoint = from.Dir
	// The first rank saves, and all take part in it, wherever the others would.
	saved := byte(0)
	if r.leads() && same(from.Dir, checkpoint.StepDir(r.job.Config.Out, was.Step)) {
		saved = 1
	}
	saved, err := r.most("where the run was saved", saved)
	if saved == 1 {
		r.saved = was.Step
	}
	return err
}

// finish saves the model.
func (r *session) finish(ctx context.Context) (err error) {
	s, j := r.sum, r.job
	s.Steps, s.First, s.Last = r.state.Step, r.state.First, r.state.Last
	s.Before, s.Best, s.Loss = r.state.Before, r.state.Best, r.trained().Loss
	if e := r.state.Eval; e != nil && !s.Interrupted && e.Step == s.Steps {
		s.After = e
	}
	if !r.leads() {
		return nil
	}
	s.BestCheckpoint = r.bestCheckpoint()
	if j.Config.Checkpoints.LoadBest && !s.Interrupted && s.Best != nil && s.Best.Step != s.Steps {
		if err := r.loadBest(); err != nil {
			return err
		}
	}
	r.out.log(r.trained())
	r.journal.end(nil) // before the folder takes its name
	if s.Out, err = r.save(ctx); s.Out != "" {
		call(j.Hooks.OnSave, s.Out)
	}
	return err
}

// bestCheckpoint returns the folder of the best model: in the output folder, or beside the
// checkpoint that the run was resumed from. It is empty if there is none.
func (r *session) bestCheckpoint() string {
	best, from := r.state.Best, r.job.Resume
	if best == nil {
		return ""
	}
	var dirs []string
	if r.out.run != nil {
		dirs = append(dirs, checkpoint.StepDir(r.out.path, best.Step))
	}
	if from != nil && best.Step <= from.State.Step {
		dirs = append(dirs, checkpoint.StepDir(filepath.Dir(filepath.Clean(from.Dir)), best.Step))
	}
	if i := slices.IndexFunc(dirs, isCheckpoint); i >= 0 {
		return dirs[i]
	}
	return ""
}

// loadBest makes the best model the one to save, if it has a checkpoint. A disk that was
// full for a while is no reason to lose the last one too.
func (r *session) loadBest() error {
	if r.best != nil {
		for i, p := range r.job.Model.Trainable() {
			copy(p.Tensor.Data, r.best[i])
			p.Written()
		}
		r.sum.Loaded = true
		return nil
	}
	dir := r.sum.BestCheckpoint
	if dir == "" {
		call(r.job.Hooks.OnWarning, fmt.Errorf("the best model, that of step %d, has no checkpoint: the last one is saved instead", r.sum.Best.Step))
		return nil
	}
	// Looked at before a weight of the last is overwritten.
	if err := checkpoint.Verify(dir); err != nil {
		call(r.job.Hooks.OnWarning, fmt.Errorf("the best model, that of step %d, cannot be read: the last one is saved instead: %w", r.sum.Best.Step, err))
		return nil
	}
	if err := readWeights(r.job.Model, dir); err != nil {
		return fmt.Errorf("trainer: load the best model: %w", err)
	}
	r.sum.Loaded = true
	return nil
}
