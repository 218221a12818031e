package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/models"
)

// refusal is the error of a run that does not fit, with what would make it fit.
func (p *runPlan) refusal() error {
	return fmt.Errorf("the run needs %s of memory, and %s are free%s; --force trains all the same",
		amount.Bytes(p.Bytes), amount.Bytes(p.Available), p.remedy())
}

// advise says what would make a run fit that was refused for its memory. A run that was
// refused before it had kernels is taken as one without.
func (a *app) advise(ctx context.Context, command *Command, t *trainFlags, m *models.Model, reg *core.Registry,
	refused error) (err error) {
	c := t.config
	short, ok := errors.AsType[*trainer.MemoryError](refused)
	if !ok {
		return refused
	}
	mem := transport.NewShapes("tensors")
	defer closing(mem, &err)
	s := &smaller{mem, c, a.patcher(ctx, c, mem, reg)}
	if c.Model != "" { // and not the built-in example
		options, err := c.LoadOptions()
		if err == nil {
			m, err = models.Shape(c.Model, mem, options)
		}
		if err != nil {
			return errors.Join(refused, err)
		}
	}
	p := &runPlan{Bytes: short.Bytes, Available: short.Free, report: &core.Report{}}
	if c.Model != "" {
		if p.report, err = s.patch(m); err != nil {
			return errors.Join(refused, err)
		}
	}
	p.run = forecastOf(c, p.report)
	look := func() error { return p.lookForLess(s, m) }
	if c.Model != "" {
		look = func() error { return p.lookForFit(a.fitter(ctx, command, t, c, mem, reg), s, m) }
	}
	if err := look(); err != nil {
		return errors.Join(refused, err)
	}
	return p.refusal()
}
