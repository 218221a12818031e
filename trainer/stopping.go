package trainer

import "slices"

// rank compares an evaluation with the best before it, as transformers' EarlyStoppingCallback does, and
// keeps the model if it is better and nothing else would.
func (r *session) rank(loss float64) {
	s, c := &r.state, r.job.Config.Checkpoints
	if s.NoBetter++; s.Best == nil || s.Best.Loss-loss > c.Threshold {
		s.NoBetter = 0
	}
	if s.Best != nil && !(loss < s.Best.Loss) {
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
