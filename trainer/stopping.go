package trainer

import (
	"math"
	"slices"
)

// rank compares an evaluation with the best before it, as transformers' EarlyStoppingCallback does, and
// keeps the model if it is better and nothing else would.
func (r *session) rank() {
	s, c, gain := &r.state, r.job.Config.Checkpoints, math.Inf(1)
	if s.Best != nil {
		gain = r.job.Config.Metric.gain(*s.Best, *s.Eval)
	}
	if s.NoBetter++; gain > c.Threshold {
		s.NoBetter = 0
	}
	if !(gain > 0) {
		return
	}
	s.Best = s.Eval
	if !c.LoadBest || c.SaveEvery > 0 {
		return
	}
	all := r.job.Model.Trainable()
	r.best = slices.Grow(r.best, len(all))[:len(all)]
	for i, p := range all {
		r.best[i] = append(r.best[i][:0], p.Tensor.Data...)
	}
}
