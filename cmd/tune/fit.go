package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
)

// automatic is the value of flags that leave a choice to the program.
const automatic = "auto"

// memoryLimit is the value of --memory: a size, or auto, which has none.
type memoryLimit struct{ byteSize }

var _ pflag.Value = (*memoryLimit)(nil)

// Type implements pflag.Value.
func (*memoryLimit) Type() string { return "limit" }

// Set implements pflag.Value.
func (l *memoryLimit) Set(s string) error {
	if s == automatic {
		l.byteSize = byteSize{text: s}
		return nil
	}
	return l.byteSize.Set(s)
}

// fitter looks for a run that needs no more memory than a limit.
type fitter struct {
	config trainer.Config // of the run as it was asked for
	auto   bool           // in which the layers to be computed again are to be chosen
	kept   func(flag string) bool
	limit  int64 // 0 for none that is known
	mem    core.Memory
	patch  func(trainer.Config) func(*models.Model) (*core.Report, error)
	course *course // of the run's data; nil as long as they are not known
}

// errNoRun is the error of changes that the rest of a configuration rules out.
var errNoRun = errors.New("no run")

// fitting is what a run takes with some changes.
type fitting struct {
	Changes []change `json:"changes"`
	Bytes   int64    `json:"bytes"`
	parts   []string // of layers, that are computed again, where they were to be chosen
	rest    int64    // Bytes without what kernels may keep
}

// choose returns what the run takes as it was asked for, and with the first combination of changes that fits; where
// none does, with that which needs the least.
func (f *fitter) choose() (asked, best *fitting, fits bool, err error) {
	for _, with := range combinations(f.config, f.kept) {
		next, err := f.try(with)
		if asked != nil && (errors.Is(err, errNoRun) || errors.Is(err, core.ErrNotSupported)) {
			continue // the latter of kernels that are asked for by their names
		}
		if err != nil {
			return nil, nil, false, err
		}
		if asked == nil {
			asked = next
		}
		if best == nil || next.Bytes < best.Bytes {
			best = next
		}
		if next.Bytes <= f.limit || f.limit == 0 {
			return asked, next, true, nil
		}
	}
	return asked, best, false, nil
}

// try forecasts the run with some changes.
func (f *fitter) try(with []change) (*fitting, error) {
	c, err := changed(f.config, with)
	if err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRun, err)
	}
	m, err := shape(c, f.mem)
	if err != nil && len(with) > 0 { // such as of a model that bitsandbytes has quantised already
		err = fmt.Errorf("%w: %w", errNoRun, err)
	}
	if err != nil {
		return nil, err
	}
	defer m.Free()
	report, err := f.patch(c)(m)
	if err != nil {
		return nil, err
	}
	r := f.course.of(forecastOf(c, report))
	r.Free = f.limit
	if !f.auto && !changesFlag(with, recomputeFlag) {
		planned, err := forecast.New(m, f.mem, r)
		if err != nil {
			return nil, err
		}
		return newFitting(with, planned), nil
	}
	limit := f.limit
	if limit == 0 {
		limit = math.MaxInt64
	}
	planned, parts, longer, err := forecast.Selective(m, f.mem, r, limit)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(with), func(c change) bool { return c.Flag == recomputeFlag })
	next := newFitting(others, planned)
	if next.parts = parts; len(parts) > 0 {
		cost := fmt.Sprintf("computes %s again: %.0f%% more time by the arithmetic, the same bits",
			partsInWords(parts, m.Config.NumHiddenLayers), 100*longer)
		next.Changes = slices.Insert(next.Changes, 0, change{recomputeFlag, automatic, cost})
	}
	return next, nil
}

func newFitting(with []change, planned *forecast.Forecast) *fitting {
	f := &fitting{Changes: with, Bytes: planned.Bytes(), rest: planned.Bytes()}
	for _, p := range planned.Memory {
		if p.Name == forecast.KeptPart {
			f.rest -= p.Bytes
		}
	}
	return f
}

// changed returns a configuration with flags set.
func changed(c trainer.Config, with []change) (trainer.Config, error) {
	command := &Command{}
	t := newTrainFlags(command)
	command.finish(nil)
	t.config = c
	err := set(command, with)
	return t.config, err
}

// set gives a command the flags of changes.
func set(c *Command, with []change) error {
	for _, w := range with {
		if err := c.Flags.Set(w.Flag, w.Value); err != nil {
			return fmt.Errorf("--%s %s: %w", w.Flag, w.Value, err)
		}
	}
	return nil
}

// fit changes what the flags leave open so that the run needs no more memory than --memory, and says what it is. It
// returns nil where nothing is to be chosen.
func (a *app) fit(ctx context.Context, c *Command, t *trainFlags, reg *core.Registry) (_ *fitted, err error) {
	limited := t.memory.text != ""
	if !limited && !t.recompute.auto {
		return nil, nil
	}
	if err := t.checkMemoryFlags(a, c); err != nil {
		return nil, err
	}
	mem := transport.NewShapes("tensors")
	defer closing(mem, &err)
	f := a.fitter(ctx, c, t, t.config, mem, reg)
	if f.limit = t.limit(a.world != nil); !limited {
		f.kept = func(string) bool { return true }
	}
	result := &fitted{Limit: f.limit, given: t.memory.text}
	if result.asked, result.fitting, result.Fits, err = f.choose(); err != nil {
		return nil, t.kernels.blame(err)
	}
	if limited && !result.Fits {
		return nil, result.refusal(f)
	}
	if err := set(c, result.Changes); err != nil {
		return nil, err
	}
	if f.auto || changesFlag(result.Changes, recomputeFlag) {
		t.config.GradientCheckpointing, t.config.CheckpointParts = len(result.parts) > 0, result.parts
	}
	if limited && t.config.MaxKept == 0 && f.limit > 0 {
		if t.config.MaxKept = forecast.Room(f.limit, result.rest, 0); t.config.MaxKept == 0 {
			t.config.MaxKept = -1
		}
	}
	return result, nil
}

// fitter returns one for a configuration, without a limit.
func (a *app) fitter(ctx context.Context, c *Command, t *trainFlags, config trainer.Config, mem core.Memory,
	reg *core.Registry) *fitter {
	patchers := map[int]func(*models.Model) (*core.Report, error){} // by the rows of a batch
	f := &fitter{config: config, auto: t.recompute.auto, mem: mem,
		patch: func(config trainer.Config) func(*models.Model) (*core.Report, error) {
			if patchers[config.Batch] == nil {
				patchers[config.Batch] = a.patcher(ctx, config, mem, reg)
			}
			return patchers[config.Batch]
		}}
	given := map[string]bool{}
	c.Flags.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	f.kept = func(flag string) bool {
		switch flag {
		case recomputeFlag: // which a run that goes on may change, too
			return given[flag] && !t.recompute.auto
		case "update-in-backward":
			return t.changed(flag) || a.world != nil
		}
		return t.changed(flag)
	}
	return f
}

// limit returns what --memory allows, and no more than is free; without a size that alone. It is 0 if nothing tells.
// Of several ranks, each has to come to the same, and so none asks its machine.
func (t *trainFlags) limit(ranks bool) int64 {
	free := memory.Available()
	if t.memory.bytes > 0 && (ranks || free == 0) {
		return t.memory.bytes
	}
	if t.memory.bytes > 0 {
		return min(t.memory.bytes, free)
	}
	return free
}

func (t *trainFlags) checkMemoryFlags(a *app, c *Command) error {
	limited := t.memory.text != ""
	switch {
	case t.config.Model == "" && limited:
		return c.usagef("--memory needs --model and --data: the built-in example is small")
	case t.config.Model == "":
		return c.usagef("--%s %s needs --model and --data: the built-in example is small", recomputeFlag, automatic)
	case limited && t.config.Force:
		return c.usagef("--memory has a run changed until it fits, and --force trains what does not fit: give one of them")
	case a.world != nil && t.memory.bytes == 0:
		return c.usagef("with several ranks, what is free on one machine cannot be what is chosen by: give --memory a size")
	}
	return nil
}

// fitForPrint is fit for a configuration that is only printed.
func (t *trainFlags) fitForPrint(ctx context.Context, a *app, c *Command) (err error) {
	if t.memory.text == "" {
		return nil
	}
	reg, err := t.kernels.open(ctx, a, transport.Options{Threads: t.config.Threads})
	if err != nil {
		return err
	}
	defer closing(reg, &err)
	_, err = a.fit(ctx, c, t, reg)
	return err
}
