package optim

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
)

// adamW is the optimizer of Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization" (2019). Step t, from 1, does for every element
//
//	p -= lr * decay * p
//	m  = beta1*m + (1-beta1)*g
//	v  = beta2*v + (1-beta2)*g*g
//	p -= lr * (m / (1-beta1^t)) / (sqrt(v / (1-beta2^t)) + eps)
//
// as torch.optim.AdamW does, but the root of 1-beta2^t is taken out of the fraction, as bitsandbytes has it: one
// division less for each element.
type adamW struct{ Config }

// The names of the moments are those of torch.optim.AdamW.
func (adamW) keeps(p *Param) []slot {
	return []slot{p.float32s("exp_avg"), p.float32s("exp_avg_sq")}
}

func (a adamW) change(s *step, p *Param, state []core.Tensor) func(value []float32, lo, hi int) {
	c, m, v := a.coefficients(s), state[0].Float32s(), state[1].Float32s()
	return func(value []float32, lo, hi int) { c.Update(value, p.gradient(lo, hi), m[lo:hi], v[lo:hi]) }
}

// coefficients are the numbers of one step that all elements share.
func (a adamW) coefficients(s *step) *simd.AdamWStep {
	t := float64(s.t)
	root2 := math.Sqrt(1 - math.Pow(a.Beta2, t))
	return &simd.AdamWStep{
		Scale: float32(s.scale),
		Keep:  s.keep(),
		Beta1: float32(a.Beta1), New1: float32(1 - a.Beta1),
		Beta2: float32(a.Beta2), New2: float32(1 - a.Beta2),
		Step: float32(s.lr * root2 / (1 - math.Pow(a.Beta1, t))),
		Eps:  float32(a.Eps * root2),
	}
}
