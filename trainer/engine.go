package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/hugepage"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/preference"
)

// EngineConfig sizes the compiled graphs and sets the optimizer.
type EngineConfig struct {
	Batch, Seq  int
	MaxPosition int // positions in batches stay below; 0 means Seq
	Accumulate  int // batches whose gradients make one step; 0 means 1
	Clip        float64
	Optim       optim.Config
	// Lengths are those below Seq to which batches are cut where that takes padding alone away, so that they take less
	// time; see data.Lengths. There is a graph for each, made when a batch first needs it, in the memory of that for Seq.
	Lengths []int
	// UpdateInBackward has each parameter updated as soon as its gradient is complete; see atOnce.
	UpdateInBackward bool
	Seed             uint64                    // of the dropout of adapters
	NoDecay          func(p *nn.Param) bool    // parameters without weight decay; nil for none
	Rate             func(p *nn.Param) float64 // what the learning rate of a parameter is multiplied by; nil for 1

	// GradientCheckpointing keeps only the residual stream between layers for the backward
	// pass and computes the rest of a layer again: less memory, up to a third more time,
	// the same bits.
	GradientCheckpointing bool
	CheckpointParts       []string // the layers, and parts of them, of which GradientCheckpointing is; nil for all. See nn.LayerPart

	MaxKept int64 // bytes that kernels may keep of frozen weights; see Config

	Preference preference.Config // the loss; the zero value is that of following answers
	Trained    bool              // the model's adapter has been trained before: the reference is the model without it

	// Seen, unless it is nil, is shown what Evaluate finds the likeliest; see NewPredictor.
	Seen func(b data.Batch, next []int32)

	Check *crosscheck.Checker // compares the kernels' calls with the plain forward; nil for no comparison

	// World is the ranks that make a step together: Batch and Accumulate are those of this rank, and so are the batches
	// that Step gets. All ranks call the same methods. It is nil for an engine that trains alone.
	World  *distributed.World
	Reduce Reduction
}

// Engine runs training steps on one model: forward, backward, clipping, optimizer. Patch
// the model before the engine exists; Close the engine before patching again.
type Engine struct {
	cfg       EngineConfig
	model     *models.Model
	mem       core.Memory
	graphs    *graphs
	program   *graph     // of graphs, that of the newest batch
	apart     bool       // see autograd.Program.Apart
	eval      *Evaluator // made at the first Evaluate
	opt       *optim.Optimizer
	grads     [][]float32     // what the optimizer reads, where the graph has it
	tensorsOf [][]part        // what of each parameter the optimizer has for one
	host      hugepage.Memory // of what no kernel sees
	freed     [][]byte        // of host
	kept      int64           // what kernels may keep, at most
	settled   bool            // a step has touched all memory of the graph
	atOnce    atOnce          // of UpdateInBackward
	ranks     *ranks          // nil for an engine that trains alone
	shard     []shard         // what the optimizer has for its parameters; nil unless it has a share only

	judge     *judge     // nil without preferences
	reference *Reference // likewise, and where the loss needs none

	over error // why it has no graphs and gets none any more; nil while it can be used
}

// StepResult says what a step did.
type StepResult struct {
	Loss     float64 // mean over the step's targets, before the update
	GradNorm float64 // before clipping
	Tokens   int     // positions processed, padding included
	Targets  int
	Metrics  *preference.Metrics // nil without preferences

	Forward, Backward, Optimizer time.Duration
	Ranks                        RankTimes // of several ranks

	losses []float64 // of this rank's batches
}

// ErrNonFinite is wrapped by the error of a step whose loss or gradients are not finite.
var ErrNonFinite = errors.New("not a finite number")

// ErrClosed is wrapped by the error of an engine or an evaluator that is used after its Close.
var ErrClosed = errors.New("closed")

var errNoModel = errors.New("trainer: there is no model: pass one of models.Load, not nil")

var errRepatch = errors.New("trainer: Engine.Repatch has failed and left the engine without graphs: close it, and make another")

// NewEngine compiles the model's graph, with the kernels that its sites hold.
func NewEngine(m *models.Model, mem core.Memory, cfg EngineConfig) (*Engine, error) {
	if m == nil {
		return nil, errNoModel
	}
	cfg.Accumulate = max(cfg.Accumulate, 1)
	if cfg.UpdateInBackward && cfg.Accumulate > 1 {
		return nil, fmt.Errorf("trainer: %w", errSums)
	}
	if cfg.MaxPosition == 0 {
		cfg.MaxPosition = cfg.Seq
	}
	e := &Engine{cfg: cfg, model: m, mem: mem, atOnce: atOnce{norm: math.NaN()}}
	if cfg.Preference.NeedsReference() {
		e.reference = &Reference{logProbs: map[answerKey]float64{}}
	}
	e.judge = newJudge(cfg.Preference, e.reference)
	if err := e.compile(); err != nil {
		return nil, err
	}
	err := e.meet()
	if err == nil {
		err = e.buildOptimizer()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	e.nameContents(memory.Available())
	return e, nil
}

// compile makes the training graph for the longest rows.
func (e *Engine) compile() (err error) {
	if e.graphs, err = newGraphs(e.cfg.Seq, e.cfg.Lengths, e.graph); err != nil {
		e.graphs = nil
		return err
	}
	e.program = e.graphs.longest()
	e.grads = e.grads[:0]
	if e.cfg.UpdateInBackward {
		return nil
	}
	for _, p := range e.model.Trainable() {
		e.grads = append(e.grads, e.program.Gradient(p))
	}
	return nil
}

// Repatch closes the graphs, lets change put other kernels on the model's sites, and makes
// the graphs again. The parameters and the optimizer stay as they are. After an error the
// engine can only be closed.
func (e *Engine) Repatch(change func() error) error {
	if e.over != nil {
		return e.over
	}
	e.closeGraphs()
	e.over = errRepatch // unless all of the following succeeds
	if err := change(); err != nil {
		return err
	}
	if err := e.compile(); err != nil {
		return err
	}
	if !e.cfg.UpdateInBackward {
		if e.ranks != nil {
			e.ranks.reducer.Bind(e.grads)
		}
		if err := e.opt.SetGradients(e.byTensor(e.grads)); err != nil {
			return err
		}
	}
	e.over = nil
	return nil
}

// Step runs one optimizer step over as many batches as are accumulated, or fewer, as at the
// end of an epoch: each target counts the same, whatever batch it is in. A loss or a norm
// that is not finite gives an error that wraps ErrNonFinite and names the first module
// that produced it; the parameters are then unchanged. So they are where a batch is not data.Batch.Valid.
func (e *Engine) Step(ctx context.Context, batches []data.Batch, lr float64) (StepResult, error) {
	var r StepResult
	if e.over != nil {
		return r, e.over
	}
	batches, err := e.fit(batches)
	for _, b := range batches {
		r.Targets += b.Targets()
		r.Tokens += b.B * b.S
	}
	var of preference.Total
	if err == nil {
		of = e.judge.total(batches...)
	}
	if err := e.ranks.count(err, &r, &of); err != nil {
		return r, err
	}
	if r.Targets == 0 {
		return r, errors.New("trainer: the batch has no targets; every label is ignored")
	}
	if e.cfg.UpdateInBackward {
		return r, e.stepAtOnce(ctx, batches[0], lr, of, &r)
	}
	err = e.gradients(ctx, batches, of, &r)
	if errors.Is(err, core.ErrSpoiled) { // a plugin died while it was adding to them
		e.apart = true
		err = e.gradients(ctx, batches, of, &r)
		e.apart = false
	}
	if err != nil {
		return r, err
	}
	start := clock.Now()
	e.opt.Step(lr, optim.ClipCoefficient(r.GradNorm, e.cfg.Clip))
	if err := e.ranks.spread(e.model.Trainable()); err != nil {
		return r, err
	}
	r.Optimizer += clock.Since(start)
	e.updated()
	return r, nil
}

// updated ends a step.
func (e *Engine) updated() {
	for _, p := range e.model.Trainable() {
		p.Changed()
	}
	if !e.settled {
		shm.Settle()
		e.settled = true
	}
}

// gradients computes those of all batches together, of all ranks.
func (e *Engine) gradients(ctx context.Context, batches []data.Batch, of preference.Total, r *StepResult) error {
	r.Loss, r.losses = 0, r.losses[:0]
	e.judge.forget()
	err := error(nil)
	for i, b := range batches {
		if err = e.judge.begin(b, of); err == nil {
			err = e.accumulate(ctx, i, i == len(batches)-1, b, r)
		}
		if err != nil {
			break
		}
	}
	if err = e.ranks.sum(err, r, e.judge); err == nil && !finite(r.GradNorm) {
		err = &notFinite{"gradient norm", r.GradNorm}
	}
	if !errors.Is(err, ErrNonFinite) {
		r.Metrics = e.judge.metrics()
		return err
	}
	return agree(e.cfg.World, e.explain(ctx, err))
}

// explain says where a number comes from that is not finite. The program still has the batch at fault.
func (e *Engine) explain(ctx context.Context, err error) error {
	if bad, ok := errors.AsType[*notFinite](err); ok {
		return e.suspects().blame(ctx, bad.what, bad.value)
	}
	return err
}

// notFinite is a number of a step that is to be explained.
type notFinite struct {
	what  string
	value float64
}

// Error implements error.
func (n *notFinite) Error() string { return fmt.Sprintf("%s is %g", n.what, n.value) }

// Unwrap returns what it is.
func (n *notFinite) Unwrap() error { return ErrNonFinite }

// forward runs the forward pass on a batch, the i-th of the step.
func (e *Engine) forward(ctx context.Context, i int, b data.Batch, r *StepResult) error {
	e.program = e.graphs.at(b.S)
	if err := e.program.Batch.Fill(b, r.Targets); err != nil {
		return err
	}
	world := e.cfg.World
	e.program.Batch.Draw(e.cfg.Seed, uint64(e.opt.T()), uint64(i*world.Size()+world.Rank()))
	e.program.Adding(i > 0)
	e.program.Apart(e.apart)
	start := clock.Now()
	loss, err := e.program.Forward(ctx)
	if err != nil {
		return err
	}
	r.Loss += loss
	r.losses = append(r.losses, loss)
	if !finite(loss) {
		return &notFinite{"loss", loss}
	}
	r.Forward += clock.Since(start)
	return nil
}

func (e *Engine) accumulate(ctx context.Context, i int, last bool, b data.Batch, r *StepResult) error {
	if err := e.forward(ctx, i, b, r); err != nil {
		return err
	}
	start := clock.Now()
	if last {
		defer e.ranks.beside(e.program.Compiled)()
	}
	if err := e.program.Backward(ctx); err != nil {
		return err
	}
	backward := clock.Now()
	r.Backward += backward.Sub(start)
	if last && e.ranks != nil {
		return nil // the norm is that of all ranks' sum
	}
	// Asked after each batch, while the one at fault can still be run again.
	r.GradNorm = optim.GlobalNorm(e.grads)
	r.Optimizer += clock.Since(backward)
	if !finite(r.GradNorm) {
		return &notFinite{"gradient norm", r.GradNorm}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// suspects are what this step can have gone wrong by.
func (e *Engine) suspects() suspects { return suspects{e.model, e.program.Compiled, e.opt.T()} }

// Evaluate is Evaluator.Loss with the engine's batch size and loss; it is made at the first call. Each of several ranks
// has its own share of the batches, which are dealt in turn, and all get the result.
func (e *Engine) Evaluate(ctx context.Context, batches iter.Seq[data.Batch]) (loss float64, targets int, err error) {
	if err := agree(e.cfg.World, e.evaluator()); err != nil {
		return 0, 0, err
	}
	e.eval.world = e.cfg.World
	return e.eval.Loss(ctx, batches)
}

// evalMetrics returns those of the evaluation before.
func (e *Engine) evalMetrics() *preference.Metrics { return e.eval.judge.metrics() }

// evaluator makes the evaluator, if there is none yet.
func (e *Engine) evaluator() (err error) {
	if e.over != nil {
		return e.over
	}
	if e.eval == nil {
		e.eval, err = newEvaluator(e.model, e.mem, e.cfg, &Evaluator{judge: newJudge(e.cfg.Preference, e.reference),
			seen: e.cfg.Seen})
	}
	if err == nil {
		e.eval.updates = e.opt.T()
	}
	return err
}

// Program returns the compiled training graph for the longest rows, for its statistics, in which those for shorter ones
// are counted; nil after a Repatch that has failed, and after Close.
func (e *Engine) Program() *nn.Compiled {
	if longest := e.graphs.longest(); longest != nil {
		return longest.Compiled
	}
	return nil
}

// Close gives the graphs' memory back and lets the model be patched again. The engine is of no use afterwards: Step,
// Evaluate, Refer and Repatch give an error that wraps ErrClosed.
func (e *Engine) Close() {
	e.over = fmt.Errorf("trainer: the engine is %w", ErrClosed)
	e.ranks.close()
	e.closeGraphs()
	for _, b := range e.freed {
		e.host.Free(b)
	}
	e.freed = nil
}

func (e *Engine) closeGraphs() {
	e.graphs.close()
	if e.eval != nil {
		e.eval.Close()
	}
	e.graphs, e.program, e.eval = nil, nil, nil
}
