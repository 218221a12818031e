package optim

import "github.com/seed98097648/tune/core"

// sgd is torch.optim.SGD: weight decay is a part of the gradient, and the momentum begins with the
// first gradient.
//
//	g += decay * p
//	m  = momentum*m + g
//	p -= lr * m
type sgd struct{ Config }

func (s sgd) keeps(p *Param) []slot {
	if s.Momentum == 0 {
		return nil
	}
	return []slot{p.float32s("momentum_buffer")}
}

func (r sgd) change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int) {
	lr, scale, decay, momentum := float32(s.lr), float32(s.scale), float32(s.decay), float32(r.Momentum)
	if state == nil {
		return func(value []float32, lo, hi int) {
			for i, g := range p.gradient(lo, hi) {
				value[i] -= float32(lr * (float32(scale*g) + float32(decay*value[i])))
			}
		}
	}
	return func(value []float32, lo, hi int) {
		m := state[0].Float32s()[lo:hi]
		for i, g := range p.gradient(lo, hi) {
			m[i] = float32(momentum*m[i]) + (float32(scale*g) + float32(decay*value[i]))
			value[i] -= float32(lr * m[i])
		}
	}
}
