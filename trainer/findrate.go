package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/trainer/data"
)

// Rates is what came of steps with rising learning rates.
type Rates struct {
	Points   []RatePoint
	Diverged bool // the steps ended early: the loss was four times the least, or no number
	// Suggested is the rate at which the smoothed loss falls fastest; 0 if it never falls.
	Suggested float64
}

// RatePoint is one step.
type RatePoint struct {
	Rate     float64 `json:"lr"`
	Loss     float64 `json:"loss"`
	Smoothed float64 `json:"smoothed"` // the mean of the loss and its neighbours on both sides
}

// The rates that FindRate tries, from the first to the last, and how it judges them. See Smith, "Cyclical
// Learning Rates for Training Neural Networks" (2017).
const (
	firstRate, lastRate = 1e-7, 1.0
	rateSides           = 16 // one part in so many of the steps is a side of a mean
	rateLimit           = 4  // times the least mean end it
)

// FindRate takes steps of training with learning rates that rise evenly on a logarithmic scale, to see at
// which the loss falls. The schedule and its warm-up have no part in that, and nothing is saved; the model is
// spoiled by it.
func (j *Job) FindRate(ctx context.Context, steps int) (*Rates, error) {
	const least = 10
	if steps < least {
		return nil, fmt.Errorf("trainer: the learning rate is looked for with %d steps; it takes %d or more", steps, least)
	}
	if j.World != nil {
		return nil, errors.New("trainer: the learning rate is looked for by one rank: leave mpirun out")
	}
	if err := j.complete(); err != nil {
		return nil, err
	}
	release, err := j.prepare()
	if err != nil {
		return nil, err
	}
	defer release()
	r := &session{job: j, out: &output{}, batch: j.Config.Batch, accumulate: j.Config.Accumulate, sum: &Summary{}}
	j.Config.GroupByLength = false // a loss that follows the lengths of rows says nothing of a rate
	if r.loader, r.lengths, err = j.Deal(); err != nil {
		return nil, err
	}
	if err := errors.Join(r.patch(ctx), r.checkMemory()); err != nil {
		return nil, err
	}
	if r.engine, err = NewEngine(j.Model, j.Memory, r.engineConfig()); err != nil {
		return nil, err
	}
	defer r.engine.Close()
	if _, err := r.engine.Refer(ctx, j.Train); err != nil {
		return nil, fmt.Errorf("the reference's log-probabilities: %w", err)
	}
	return r.rise(ctx, steps)
}

// rise takes the steps.
func (r *session) rise(ctx context.Context, steps int) (*Rates, error) {
	rates, low, side := &Rates{}, math.Inf(1), max(1, steps/rateSides)
	for i := range steps {
		rate := firstRate * math.Pow(lastRate/firstRate, float64(i)/float64(steps-1))
		batches := make([]data.Batch, r.accumulate)
		for k := range batches {
			var err error
			if batches[k], err = r.loader.Next(); err != nil {
				return nil, err
			}
		}
		done, err := r.engine.Step(ctx, batches, rate)
		if errors.Is(err, ErrNonFinite) {
			rates.Diverged = true
			break
		}
		if err != nil {
			return nil, err
		}
		rates.Points = append(rates.Points, RatePoint{Rate: rate, Loss: done.Loss})
		call(r.job.Hooks.OnStep, Step{Step: i + 1, Loss: done.Loss, LR: rate, GradNorm: done.GradNorm, Tokens: done.Tokens})
		mean := meanLoss(rates.Points[max(0, i-2*side):])
		if low = min(low, mean); mean > rateLimit*low {
			rates.Diverged = true
			break
		}
	}
	for i := range rates.Points {
		n := min(side, i, len(rates.Points)-1-i)
		rates.Points[i].Smoothed = meanLoss(rates.Points[i-n : i+n+1])
	}
	rates.Suggested = steepest(rates.Points, side)
	return rates, nil
}

func meanLoss(points []RatePoint) (mean float64) {
	for _, p := range points {
		mean += p.Loss / float64(len(points))
	}
	return mean
}

// steepest returns the rate at which the smoothed loss falls most from one side to the other, before it is at
// its least. Where a side is not whole, a mean is hardly one.
func steepest(points []RatePoint, side int) (rate float64) {
	end := 0
	for i, p := range points {
		if p.Smoothed < points[end].Smoothed {
			end = i
		}
	}
	fall := 0.0
	for i := 2 * side; i+side <= end; i++ { // the rates are even on the logarithmic scale
		if d := points[i-side].Smoothed - points[i+side].Smoothed; d > fall {
			fall, rate = d, points[i].Rate
		}
	}
	return rate
}
