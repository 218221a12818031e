package trainer

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/distributed"
	"github.com/seed98097648/tune/trainer/nn"
	"github.com/seed98097648/tune/trainer/preference"
)

// Reduction says how ranks sum their gradients.
type Reduction struct {
	Type distributed.Type `json:"-"` // "" for float32
	// Behind sums after the backward pass, not beside it, as if it were not known what is complete.
	Behind bool `json:"-"`
	// Shard has each rank keep the optimizer's state of its own share of the elements, and update that.
	Shard bool `json:"-"`
}

// RankTimes is where the time of a step went, of several ranks.
type RankTimes struct {
	Waited  time.Duration // this rank for others, and for what it could not do beside them
	Slowest int           // the rank that computed longest
	Longest time.Duration // how long that was
}

// ranks is what an engine has of the others that train the same model; nil for one that trains alone.
type ranks struct {
	world   *distributed.World
	reducer *distributed.Reducer
	how     Reduction
	grads   func() [][]float32
	begun   bool // a pass of the reducer
	started clock.Moment
	before  time.Duration // spent in the world before the step
}

// meet makes the engine one of several.
func (e *Engine) meet() error {
	if e.cfg.World == nil {
		return nil
	}
	c := Config{Optimizer: Optimizer{Kind: e.cfg.Optim.Kind, UpdateInBackward: e.cfg.UpdateInBackward}}
	if slices.ContainsFunc(e.model.Trainable(), func(p *nn.Param) bool { return p.Tensor.DType != core.Float32 }) {
		c.Optimizer.Weights = BF16
	}
	if err := (Ranks{Reduce: e.cfg.Reduce}).validate(c); err != nil {
		return err
	}
	x := &ranks{world: e.cfg.World, how: e.cfg.Reduce, grads: func() [][]float32 { return e.grads }}
	var sizes []int
	for _, g := range e.grads {
		sizes = append(sizes, len(g))
	}
	wire := x.how.Type
	if wire == "" {
		wire = distributed.Float32
	}
	var err error
	if x.reducer, err = x.world.NewReducer(sizes, e.program.GradientOrder(), wire); err != nil {
		return err
	}
	x.reducer.Bind(e.grads)
	e.ranks = x
	return nil
}

func (x *ranks) close() {
	if x != nil {
		x.reducer.Close() // memory that is unmapped; nothing is written to it any more
	}
}

// count makes tokens, targets and what the loss of preferences is a mean of those of all ranks: each learned token, or
// pair, counts the same, whichever rank has it. That the batches of one cannot be used is an error of all.
func (x *ranks) count(failed error, r *StepResult, of *preference.Total) error {
	if x == nil {
		return failed
	}
	x.started, x.before = clock.Now(), x.world.Spent()
	all, err := tell(x.world, "the tokens of a step", failed, []float64{float64(r.Targets), float64(r.Tokens),
		float64(of.Examples), float64(of.ChosenTokens)})
	if err != nil {
		return err
	}
	r.Targets, r.Tokens, *of = 0, 0, preference.Total{}
	for _, numbers := range all {
		r.Targets += int(numbers[0])
		r.Tokens += int(numbers[1])
		of.Examples += int(numbers[2])
		of.ChosenTokens += int(numbers[3])
	}
	return nil
}

// beside has gradients summed over the ranks as soon as they are complete, until it is stopped.
func (x *ranks) beside(program *nn.Compiled) (stop func()) {
	if x == nil || x.how.Behind {
		return func() {}
	}
	x.reducer.Sum(x.how.Shard)
	x.begun = true
	program.OnGradient(x.reducer.Ready)
	return func() { program.OnGradient(nil) }
}

// sum makes gradients, loss, norm and metrics those of all ranks, unless one of them has failed: then it is an error of
// all. All ranks come here once for each time that they compute gradients, even after an error.
func (x *ranks) sum(failed error, r *StepResult, j *judge) error {
	if x == nil {
		return failed
	}
	computed := clock.Since(x.started) - (x.world.Spent() - x.before)
	if !x.begun {
		x.reducer.Sum(x.how.Shard)
	}
	x.begun = false
	if err := x.reducer.Wait(); err != nil {
		return err
	}
	norm, grads := 0.0, x.grads()
	x.reducer.Own(func(tensor, from, to int) { norm += simd.SumSquares(grads[tensor][from:to]) })
	told := j.told()
	all, err := tell(x.world, "the result of a step", failed,
		slices.Concat([]float64{norm, computed.Seconds()}, told, r.losses))
	if err != nil {
		return err
	}
	sums, losses := make([][]float64, len(all)), make([][]float64, len(all))
	for rank, numbers := range all {
		sums[rank], losses[rank] = numbers[2:2+len(told)], numbers[2+len(told):]
	}
	j.heard(sums)
	x.gather(all, losses, r)
	r.Ranks.Waited = x.world.Spent() - x.before
	return nil
}

// gather adds up what the ranks have told, the losses in the order of the batches.
func (x *ranks) gather(all, losses [][]float64, r *StepResult) {
	norm := 0.0
	r.Loss, r.Ranks = 0, RankTimes{}
	for rank, numbers := range all {
		norm += numbers[0]
		if took := time.Duration(numbers[1] * float64(time.Second)); took > r.Ranks.Longest {
			r.Ranks.Slowest, r.Ranks.Longest = rank, took
		}
	}
	r.GradNorm = math.Sqrt(norm)
	for _, loss := range inTurn(losses) {
		r.Loss += loss
	}
}

// tell exchanges numbers, unless a rank has failed.
func tell(w *distributed.World, what string, failed error, numbers []float64) ([][]float64, error) {
	if failed != nil {
		numbers = nil
	}
	mine := binary.LittleEndian.AppendUint32(nil, uint32(len(numbers)))
	for _, v := range numbers {
		mine = binary.LittleEndian.AppendUint64(mine, math.Float64bits(v))
	}
	messages, err := w.Exchange(what, append(mine, encodeFailure(failed)...))
	if err != nil {
		return nil, err
	}
	var all [][]float64
	for i, m := range messages {
		n := int(binary.LittleEndian.Uint32(m))
		row := make([]float64, n)
		for k := range row {
			row[k] = math.Float64frombits(binary.LittleEndian.Uint64(m[4+8*k:]))
		}
		all, messages[i] = append(all, row), m[4+8*n:]
	}
	return all, worst(w, messages, failed)
}

// agree makes an error of one rank that of all.
func agree(w *distributed.World, failed error) error {
	if w == nil {
		return failed
	}
	messages, err := w.Exchange("whether any has failed", encodeFailure(failed))
	if err != nil {
		return errors.Join(failed, err)
	}
	return worst(w, messages, failed)
}
