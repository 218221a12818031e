package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// atOnce is what an engine has to know that updates each parameter as soon as its gradient is complete:
// only a few gradients are in memory at a time. The norm of all is known when the updates are made, and so what is
// clipped is clipped by the norm of the step before; in the first step by its own, for which its
// passes are made once without updates.
//
// A step that has begun to update cannot be made again. So whatever may have to be, because kernels are
// compared with the plain forward in it, is tried without updates before.
type atOnce struct {
	norm    float64     // of the gradients of the step before; NaN for a first step
	trial   bool        // nothing is updated
	begun   bool        // something was
	lr      float64     // of the step at hand
	squares [][]float64 // of each parameter's gradient
	took    time.Duration
	failed  error // of a step that was made in part
}

var errSums = errors.New("gradients of several batches are summed before they are used, which updating in the " +
	"backward pass leaves no room for: take one larger batch for a step, or update after it")

// stepAtOnce is Step for UpdateInBackward.
func (e *Engine) stepAtOnce(ctx context.Context, b data.Batch, lr float64, of preference.Total, r *StepResult) error {
	a := &e.atOnce
	if a.failed != nil {
		return a.failed
	}
	g := e.graphs.at(b.S) // each graph's calls are compared in each round
	if round := e.cfg.Check.Round() + 1; round > g.tried || e.cfg.Clip > 0 && math.IsNaN(a.norm) {
		a.trial = true
		err := e.pass(ctx, b, of, r)
		a.trial = false
		if err != nil {
			return err
		}
		g.tried = round
		if math.IsNaN(a.norm) {
			a.norm = r.GradNorm
		}
	}
	a.lr, a.begun = lr, false
	steps := e.opt.T()
	if err := e.pass(ctx, b, of, r); err != nil {
		if a.begun {
			a.failed = inPart(err)
			return a.failed
		}
		e.opt.SetT(steps) // the step has not been made
		return err
	}
	a.norm = r.GradNorm
	e.updated()
	return nil
}

// pass runs both passes, with updates unless it is a trial.
func (e *Engine) pass(ctx context.Context, b data.Batch, of preference.Total, r *StepResult) error {
	a := &e.atOnce
	a.squares, a.took = make([][]float64, len(e.model.Trainable())), 0
	r.Loss = 0
	e.judge.forget()
	if err := e.judge.begin(b, of); err != nil {
		return err
	}
	if err := e.forward(ctx, 0, b, r); err != nil {
		return e.explain(ctx, err)
	}
	if !a.trial {
		e.opt.Begin()
	}
	start := clock.Now()
	if err := e.program.Backward(ctx); err != nil {
		return err
	}
	r.Backward += clock.Since(start) - a.took
	r.Optimizer += a.took
	sum := 0.0
	for _, parts := range a.squares {
		for _, s := range parts {
			sum += s
		}
	}
	r.GradNorm, r.Metrics = math.Sqrt(sum), e.judge.metrics()
	return nil
}

// partElems is how many elements of a large gradient are in memory at a time; 0 for as many as are fast.
var partElems int

// updates has gradients be used as they become complete.
func (e *Engine) updates() *autograd.Updates {
	return &autograd.Updates{Use: e.complete, Unit: forecast.Units(e.model, e.cfg.Optim), Part: partElems}
}

// complete takes a complete gradient, or a part of one, from an element on.
func (e *Engine) complete(param, from int, grad []float32) error {
	a, start := &e.atOnce, clock.Now()
	defer func() { a.took += clock.Since(start) }()
	squares := optim.Squares(grad)
	a.squares[param] = append(a.squares[param], squares...)
	for _, s := range squares {
		if !finite(s) {
			return e.suspects().blame(context.Background(), "gradient norm", s)
		}
	}
	if a.trial {
		return nil
	}
	a.begun = true
	scale := optim.ClipCoefficient(a.norm, e.cfg.Clip)
	var pieces []optim.Piece
	for _, t := range e.tensorsOf[param] {
		if lo, hi := max(t.from, from), min(t.to, from+len(grad)); lo < hi {
			pieces = append(pieces, optim.Piece{Param: t.index, From: lo - t.from, Grad: grad[lo-from : hi-from]})
		}
	}
	e.opt.Update(a.lr, scale, pieces...)
	return nil
}

// part is a tensor of a file within a parameter, and its place in the optimizer.
type part struct{ index, from, to int }

// inPart is the error of a step that cannot be repeated. That a kernel was wrong is nothing that
// could be mended by another.
func inPart(err error) error {
	const what = "a part of the weights is updated, and the step cannot be made again: go on from a checkpoint"
	if _, ok := errors.AsType[*core.KernelError](err); ok {
		return fmt.Errorf("%v; %s", err, what)
	}
	return fmt.Errorf("%w; %s", err, what)
}
