package optim

import "github.com/seed98097648/tune/core"

// lion is the optimizer of Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023):
//
//	p -= lr * decay * p
//	p -= lr * sign(beta1*m + (1-beta1)*g)
//	m  = beta2*m + (1-beta2)*g
type lion struct{ Config }

func (lion) keeps(p *Param) []slot { return []slot{p.float32s("exp_avg")} }

func (l lion) change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int) {
	keep, lr, scale := s.keep(), float32(s.lr), float32(s.scale)
	beta1, new1, beta2, new2 := float32(l.Beta1), float32(1-l.Beta1), float32(l.Beta2), float32(1-l.Beta2)
	return func(value []float32, lo, hi int) {
		m, g := state[0].Float32s()[lo:hi], p.gradient(lo, hi)
		for i, x := range value {
			x, g := float32(keep*x), float32(scale*g[i])
			switch c := float32(beta1*m[i]) + float32(new1*g); {
			case c > 0:
				x -= lr
			case c < 0:
				x += lr
			}
			value[i] = x
			m[i] = float32(beta2*m[i]) + float32(new2*g)
		}
	}
}
