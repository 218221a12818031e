package trainer

import (
	"context"
	"errors"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// Evaluator measures the loss of a model without training it. Patch the model before the
// evaluator exists; Close it before patching again.
type Evaluator struct {
	model   *models.Model
	program *nn.Compiled
	updates int // that training has made
	world   *distributed.World
}

// NewEvaluator compiles the model's graph, with the kernels that its sites hold, for
// batches of so many rows of seq tokens, whose positions stay below maxPosition. check
// compares the kernels' calls with the plain forward; nil for no comparison.
func NewEvaluator(m *models.Model, mem core.Memory, batch, seq, maxPosition int, check *crosscheck.Checker) (*Evaluator, error) {
	c, err := nn.NewContext(mem, batch, seq, maxPosition)
	if err != nil {
		return nil, err
	}
	c.Watch = check.Watch
	program, err := m.Compile(c, m.Forward(c).Loss, true)
	if err != nil {
		return nil, err
	}
	return &Evaluator{model: m, program: program}, nil
}

// Loss returns the mean loss over the targets of all batches, and their number. A loss
// that is not finite gives an error that wraps ErrNonFinite, as in Engine.Step.
func (e *Evaluator) Loss(ctx context.Context, batches func(yield func(data.Batch) bool)) (loss float64, targets int, err error) {
	i, losses, counts := 0, []float64(nil), []float64(nil)
	for b := range batches {
		if mine := i%e.world.Size() == e.world.Rank(); mine && err == nil {
			l, n, failed := e.batch(ctx, b)
			losses, counts, err = append(losses, l), append(counts, float64(n)), failed
		}
		if i++; err != nil && e.world == nil {
			break
		}
	}
	if losses, err = everybody(e.world, "an evaluation", losses, err); err == nil {
		counts, err = everybody(e.world, "an evaluation", counts, nil)
	}
	if err != nil {
		return 0, 0, err
	}
	sum := 0.0
	for i, l := range losses {
		sum += l * counts[i]
		targets += int(counts[i])
	}
	if targets == 0 {
		return 0, 0, errors.New("trainer: the evaluation data has no targets")
	}
	return sum / float64(targets), targets, nil
}

// batch returns the mean loss over the targets of a batch, and their number.
func (e *Evaluator) batch(ctx context.Context, b data.Batch) (loss float64, targets int, err error) {
	if targets = b.Targets(); targets == 0 {
		return 0, 0, nil
	}
	if err := e.program.Batch.Fill(b, targets); err != nil {
		return 0, 0, err
	}
	if loss, err = e.program.Forward(ctx); err != nil {
		return 0, 0, err
	}
	if !finite(loss) {
		return 0, 0, suspects{e.model, e.program, e.updates}.blame(ctx, "loss", loss)
	}
	return loss, targets, nil
}

// Close gives the graph's memory back and lets the model be patched again.
func (e *Evaluator) Close() { e.program.Close() }
