package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/models"
)

// variant is one model under measurement.
type variant struct {
	kernels string
	model   *models.Model
	engine  *trainer.Engine
	report  *core.Report

	steps  []Step // the measured ones
	losses []float64
	needed float64     // operations in products that a step needs, whatever the kernels
	health core.Health // what happened to its kernels in these steps
	peak   int64       // bytes; 0 if unknown
}

// newVariant builds the model, patches it and compiles its graph.
func newVariant(ctx context.Context, o Options, selection string) (*variant, error) {
	v := &variant{kernels: selection}
	var err error
	options := models.LoadOptions{LoRA: o.LoRA, Seed: o.Seed, Narrow: o.Optimizer.Weights == trainer.BF16}
	if o.Model != "" {
		v.model, err = models.LoadWith(o.Model, o.Memory, options)
	} else if v.model, err = models.NewWith(o.ModelJSON, o.Memory, options); err == nil {
		v.model.Init(o.Seed)
	}
	if err != nil {
		return nil, err
	}
	if err := v.build(ctx, o); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func (v *variant) build(ctx context.Context, o Options) error {
	err := v.model.Config.CheckLength("the sequence length", o.Seq, 1)
	if err != nil {
		return err
	}
	if err := v.model.Round(o.Precision.Products()); err != nil {
		return err
	}
	if v.needed, err = neededProducts(v.model, o); err != nil {
		return err
	}
	reg, selection := o.kernelsOf(v.kernels)
	plan, err := measure.Plan(ctx, v.model, reg, selection, measure.Run{Memory: o.Memory, Batch: o.Batch, Seq: o.Seq,
		Keepless: o.MaxKept < 0},
		o.Measure)
	if err != nil {
		return err
	}
	if v.report, err = plan.Apply(); err != nil {
		return err
	}
	v.engine, err = trainer.NewEngine(v.model, o.Memory, o.Engine())
	return err
}

// warmUp makes a step that is not measured: it touches all memory for the first time.
func (v *variant) warmUp(ctx context.Context, o Options, b []data.Batch) error {
	took, err := v.forgotten(ctx, b, 0)
	if err == nil && o.Progress != nil {
		o.Progress(Progress{Kernels: v.kernels, Rounds: o.Steps, Step: took})
	}
	return err
}

// turn makes a step and keeps its figures, after one that it forgets: in a run a step follows one of
// the same model, and here another variant, or the ceilings, have had the caches, and threads and
// processes of the kernels sleep.
func (v *variant) turn(ctx context.Context, o Options, b []data.Batch, round int) error {
	if _, err := v.forgotten(ctx, b, round); err != nil {
		return err
	}
	before := v.kernelHealth()
	r, took, err := v.step(ctx, b, round)
	if err != nil {
		return err
	}
	v.steps = append(v.steps, Step{ms(took), ms(r.Forward), ms(r.Backward), ms(r.Optimizer)})
	v.losses = append(v.losses, r.Loss)
	after := v.kernelHealth()
	v.health.Fallbacks += after.Fallbacks - before.Fallbacks
	v.health.Waited += after.Waited - before.Waited
	v.health.Busy += after.Busy - before.Busy
	if o.Progress != nil {
		o.Progress(Progress{Kernels: v.kernels, Round: round, Rounds: o.Steps, Step: took})
	}
	return nil
}

// forgotten makes a step of which no figures are kept.
func (v *variant) forgotten(ctx context.Context, b []data.Batch, round int) (time.Duration, error) {
	defer v.engine.Program().HoldStats()()
	_, took, err := v.step(ctx, b, round)
	return took, err
}

// step makes one step.
func (v *variant) step(ctx context.Context, b []data.Batch, round int) (trainer.StepResult, time.Duration, error) {
	start := clock.Now()
	r, err := v.engine.Step(ctx, b, learningRate)
	if err != nil {
		return r, 0, fmt.Errorf("bench: variant %s, step %d: %w", v.kernels, round, err)
	}
	return r, clock.Since(start), nil
}

// kernelHealth adds up what has happened to the variant's kernels so far. Other variants
// use the same kernels, so only what a step adds to it belongs to the variant.
func (v *variant) kernelHealth() core.Health {
	sum, seen := core.Health{}, map[core.Kernel]bool{}
	for _, a := range v.report.Actions {
		if a.Kernel != nil && !seen[a.Kernel] {
			seen[a.Kernel] = true
			h := core.HealthOf(a.Kernel)
			sum.Fallbacks += h.Fallbacks
			sum.Waited += h.Waited
			sum.Busy += h.Busy
		}
	}
	return sum
}

// bytes returns what the variant holds: its parameters, what the optimizer remembers, and
// the planned memory of activations and gradients, which includes that in plugins and
// that of gradients summed over several batches.
func (v *variant) bytes() Memory {
	m := Memory{Optimizer: v.engine.StateBytes(), Program: int64(v.engine.Program().Bytes()), Kept: v.engine.Kept()}
	for _, p := range v.model.Params() {
		m.Parameters += p.Bytes()
	}
	m.Total = m.Parameters + m.Optimizer + m.Program + m.Kept
	return m
}

func (v *variant) close() {
	if v.engine != nil {
		v.engine.Close()
	}
	v.model.Free()
}
