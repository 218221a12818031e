package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// Evaluator measures the loss of a model without training it. Patch the model before the
// evaluator exists; Close it before patching again.
type Evaluator struct {
	model    *models.Model
	graphs   *graphs
	updates  int    // that training has made
	judge    *judge // nil without preferences
	world    *distributed.World
	measured []measured // of each batch of the last Loss, of all ranks

	seen func(b data.Batch, next []int32) // nil unless somebody looks at the likeliest tokens
}

// measured is the mean loss of a batch, and what it is a mean of.
type measured struct {
	loss, weight, targets float64
	following, tokens     float64 // of ORPO: the part of the loss that is a mean over so many tokens, whatever weight is
}

// NewEvaluator compiles the model's graph, with the kernels that its sites hold, for
// batches of so many rows of seq tokens, whose positions stay below maxPosition. check
// compares the kernels' calls with the plain forward; nil for no comparison.
func NewEvaluator(m *models.Model, mem core.Memory, batch, seq, maxPosition int, check *crosscheck.Checker) (*Evaluator, error) {
	return NewPredictor(m, mem, batch, seq, maxPosition, check, nil)
}

// NewPredictor is NewEvaluator of one that shows seen each batch with the likeliest token after each of its tokens, -1
// where nothing is to be predicted. The logits are in memory for that, whatever kernel the loss has.
func NewPredictor(m *models.Model, mem core.Memory, batch, seq, maxPosition int, check *crosscheck.Checker,
	seen func(b data.Batch, next []int32)) (*Evaluator, error) {
	cfg := EngineConfig{Batch: batch, Seq: seq, MaxPosition: maxPosition, Check: check}
	return newEvaluator(m, mem, cfg, &Evaluator{seen: seen})
}

// newEvaluator makes the graph of e for the longest rows.
func newEvaluator(m *models.Model, mem core.Memory, cfg EngineConfig, e *Evaluator) (_ *Evaluator, err error) {
	if m == nil {
		return nil, errNoModel
	}
	e.model = m
	e.graphs, err = newGraphs(cfg.Seq, cfg.Lengths, func(seq int, within *autograd.Program) (*graph, error) {
		c, err := nn.NewContext(mem, cfg.Batch, seq, cfg.positions(seq))
		if err != nil {
			return nil, err
		}
		c.G.Within(within)
		c.Watch = cfg.Check.Watch
		if e.judge != nil {
			c.Weigh = e.judge.weigh
		}
		out, g := m.Forward(c), &graph{}
		if e.seen != nil {
			g.likeliest = nn.Likeliest(c, out.Logits)
		}
		if g.Compiled, err = m.Compile(c, out.Loss, true); err != nil {
			return nil, err
		}
		return g, nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Loss returns the mean loss over the targets of all batches, or over their pairs or marked answers, and the
// number of targets. A loss that is not finite gives an error that wraps ErrNonFinite, as in Engine.Step.
func (e *Evaluator) Loss(ctx context.Context, batches iter.Seq[data.Batch]) (loss float64, targets int, err error) {
	if e.graphs == nil {
		return 0, 0, fmt.Errorf("trainer: the evaluator is %w", ErrClosed)
	}
	e.judge.forget()
	e.measured = e.measured[:0]
	for b := range batches {
		m, failed := e.batch(ctx, b)
		e.measured = append(e.measured, m)
		if err = failed; err != nil {
			break
		}
	}
	if e.measured, err = everybody(e.world, e.judge, e.measured, err); err != nil {
		return 0, 0, err
	}
	if loss, targets = meanOf(e.measured); targets == 0 {
		return 0, 0, errors.New("trainer: the evaluation data has no targets")
	}
	return loss, targets, nil
}

// meanOf returns the mean loss of batches, and their targets.
func meanOf(batches []measured) (loss float64, targets int) {
	var sum, weight, following, tokens float64
	for _, b := range batches {
		sum += (b.loss - b.following) * b.weight
		weight += b.weight
		following += b.following * b.tokens
		tokens += b.tokens
		targets += int(b.targets)
	}
	if weight == 0 {
		return 0, 0
	}
	return sum/weight + following/max(tokens, 1), targets
}

// forward returns the loss of a batch with so many targets.
func (e *Evaluator) forward(ctx context.Context, b data.Batch, targets int) (float64, error) {
	g := e.graphs.at(b.S)
	if err := g.Batch.Fill(b, targets); err != nil {
		return 0, err
	}
	l, err := g.Forward(ctx)
	if err == nil && !finite(l) {
		err = suspects{e.model, g.Compiled, e.updates}.blame(ctx, "loss", l)
	}
	if err == nil && e.seen != nil {
		e.seen(b, g.Tensor(g.likeliest).Int32s())
	}
	return l, err
}

// batch measures a batch, whose loss is a mean over its targets, pairs or marked answers.
func (e *Evaluator) batch(ctx context.Context, b data.Batch) (m measured, err error) {
	if err := b.Valid(); err != nil {
		return m, fmt.Errorf("trainer: %w", err)
	}
	targets := b.Targets()
	if targets == 0 {
		return m, nil
	}
	if b, err = e.graphs.fit(b); err != nil {
		return m, err
	}
	of := e.judge.total(b)
	m.weight, m.targets = float64(targets), float64(targets)
	if e.judge != nil {
		m.weight = float64(of.Examples)
	}
	if err = e.judge.begin(b, of); err == nil {
		m.loss, err = e.forward(ctx, b, targets)
	}
	m.following, m.tokens = e.judge.following()
	return m, err
}

// Close gives the graph's memory back and lets the model be patched again. Loss gives an error that wraps ErrClosed
// afterwards.
func (e *Evaluator) Close() {
	e.graphs.close()
	e.graphs = nil
}
