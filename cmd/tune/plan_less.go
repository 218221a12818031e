package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// smaller is what it takes to forecast runs that need less memory than the one asked for.
type smaller struct {
	mem    core.Memory
	config trainer.Config // of the run
	patch  func(*models.Model) (*core.Report, error)
}

// lookForFit finds out what --memory would change so that the run fits, and if that is not enough, what else makes it
// smaller.
func (p *runPlan) lookForFit(f *fitter, s *smaller, m *models.Model) error {
	f.limit = p.Available
	_, best, fits, err := f.choose()
	if err == nil && fits && len(best.Changes) > 0 {
		p.Others = append(p.Others, otherRun{" " + flagsOf(best.Changes) + ", as --memory auto chooses", best.Bytes, true})
		return nil
	}
	return p.lookForLess(s, m)
}

// lookForLess finds out what makes the run smaller: the same training in smaller parts, and
// if that is not enough, or only for shorter rows, adapters in place of the weights.
func (p *runPlan) lookForLess(s *smaller, m *models.Model) error {
	if fits, err := p.cut(s, m, p.run, ""); fits || err != nil {
		return err
	}
	for _, c := range adapters(s.config.LoRA) {
		set, err := checkpoint.OpenDir(s.config.Model)
		if err != nil {
			return nil // adapters leave the weights as the files have them, and there are none
		}
		if err := set.Close(); err != nil {
			return err
		}
		m, err := models.Shape(s.config.Model, s.mem, models.LoadOptions{LoRA: c.config, Objective: s.config.Objective,
			Train: models.Selection{Modules: s.config.Select.Modules}})
		if err != nil {
			return err
		}
		report, err := s.patch(m)
		if errors.Is(err, core.ErrNotSupported) {
			continue // the kernels of a run without adapters, at sites that would have them
		}
		if err != nil {
			return err
		}
		r := p.run
		r.Processes = report.Processes()
		if fits, err := p.cut(s, m, r, c.flags); fits || err != nil {
			return err
		}
	}
	return nil
}

// adapted is a choice of adapters and the flags that make it.
type adapted struct {
	config lora.Config
	flags  string
}

// adapters returns choices of adapters that need less than a run has, the larger first.
func adapters(c lora.Config) []adapted {
	var all []adapted
	if !c.Enabled() {
		c.Rank = 8
		all = append(all, adapted{c, " --lora-rank 8"})
	}
	if c.BaseInt8 {
		return all
	}
	c.BaseInt8 = true
	flags := " --base-int8"
	if all != nil {
		flags = all[0].flags + flags
	}
	return append(all, adapted{c, flags})
}

// cut makes a run smaller, one change on top of the other, until it fits: what recomputes,
// what takes more batches for a step, and what sees less of a text at once. A change that
// does not help is left out: several batches have gradients to keep, which can be more than
// the activations they spare. It returns whether the run fits without the last.
func (p *runPlan) cut(s *smaller, m *models.Model, r forecast.Run, change string) (fits bool, err error) {
	least := p.Bytes
	try := func(next forecast.Run, with string) (bool, error) {
		f, err := forecast.New(m, s.mem, next)
		if err != nil || f.Bytes() >= least {
			return false, err
		}
		least, r, change = f.Bytes(), next, with
		fits := least <= p.Available
		p.Others = append(p.Others, otherRun{change, least, fits})
		return fits, nil
	}
	if change != "" {
		if fits, err := try(r, change); fits || err != nil {
			return fits, err
		}
	}
	if next := r; !next.GradientCheckpointing {
		next.GradientCheckpointing = true
		if fits, err := try(next, change+" --gradient-checkpointing"); fits || err != nil {
			return fits, err
		}
	}
	before := change
	for next := r; next.Batch > 1 && divisible(s.config); {
		next.Batch, next.Accumulate = (next.Batch+1)/2, max(next.Accumulate, 1)*2
		if fits, err := try(next, fmt.Sprintf("%s --batch %d --grad-accum %d", before, next.Batch,
			next.Accumulate)); fits || err != nil {
			return fits, err
		}
	}
	before = change
	for next := r; next.Seq > 128; {
		next.Seq /= 2
		if fits, err := try(next, fmt.Sprintf("%s --seq %d", before, next.Seq)); fits || err != nil {
			return false, err
		}
	}
	return false, nil
}

// remedy says what of lookForLess helps.
func (p *runPlan) remedy() string {
	var help []string
	for _, o := range p.Others {
		if o.Fits {
			help = append(help, "with"+o.Change)
		}
	}
	if help == nil {
		return ", and nothing that was tried fits: take a smaller model or a machine with more memory"
	}
	return ": it fits " + strings.Join(help, ", or ")
}
