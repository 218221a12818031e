package trainer

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/placement"
)

// rightly runs a part of the run that computes with kernels. A kernel that is found wrong
// is taken off its sites, and the part is done again as if it had never been there: what it
// gave has reached neither the weights nor anything that is written.
func (r *session) rightly(part func() error) error {
	if err := r.check.Rightly(r.sum.Report, r.engine.Repatch, part); err != nil {
		return err
	}
	r.sum.Checked = r.check.Stats()
	return nil
}

// Compared runs f, and if what it gives is not finite, once more with the kernels compared:
// it may be of one that was right before.
func Compared(check *crosscheck.Checker, f func() error) error {
	err := f()
	if errors.Is(err, ErrNonFinite) && check != nil {
		check.Again()
		err = f()
	}
	return err
}

// onWrong tells of a kernel that was taken off.
func (r *session) onWrong(w *core.KernelError, sites int) {
	r.sum.Wrong = append(r.sum.Wrong, w)
	r.stale = r.state.Step == 0 && (r.state.Eval != nil || r.referred)
	r.state.Kernels = r.sum.Report.Placements() // a run that is resumed has it no more
	r.state.Machine = placement.This(r.job.Registry, r.state.Kernels)
	call(r.job.Hooks.OnWrong, w)
	call(r.job.Hooks.OnWarning, TakenOff(w, sites))
}

// TakenOff says that a kernel which was found wrong is not used any more.
func TakenOff(w *core.KernelError, sites int) error {
	which := fmt.Sprintf("all %d sites that it had, which are", sites)
	if sites == 1 {
		which = "the one site that it had, which is"
	}
	return fmt.Errorf("%w; the plugin is taken off %s plain from here on, and what it gave is computed again", w, which)
}

// beginAgain repeats what was done before the first step, if a kernel that it was done with
// was found wrong since: the log-probabilities of a reference, and the evaluation. Even if only a
// gradient is, a run that never had the kernel has another rounding there.
func (r *session) beginAgain(ctx context.Context) error {
	if !r.stale {
		return nil
	}
	if err := r.compute(ctx); err != nil {
		return err
	}
	r.stale = false
	if r.state.Eval == nil {
		return nil
	}
	r.out.lines.Truncate(r.logged)
	r.state.Eval, r.state.Before = nil, nil
	return r.evaluateIfDue(ctx)
}
