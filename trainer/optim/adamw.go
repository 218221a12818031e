package optim

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/internal/simd"
)

// Param is one trainable tensor, flat, and its gradient. A matrix that a model uses
// twice (tied embeddings) is one Param.
type Param struct {
	Name  string
	Value []float32 // changed in place by Step
	Grad  []float32 // as long as Value; only read
	Decay bool      // whether weight decay applies
	Rate  float64   // what the learning rate is multiplied by; 0 means 1
}

// Config holds the constants of AdamW.
type Config struct {
	Beta1, Beta2 float64 // decay of the first and second moments, in [0, 1)
	Eps          float64 // added to the root of the second moment
	WeightDecay  float64 // decoupled; scaled by the learning rate
}

// DefaultConfig returns the usual constants, without weight decay.
func DefaultConfig() Config { return Config{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8} }

// Validate reports every constant that is out of range.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, format string, v float64) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, v))
		}
	}
	// Written so that a NaN fails, too.
	need(c.Beta1 >= 0 && c.Beta1 < 1, "beta1 is %v; want 0 <= beta1 < 1", c.Beta1)
	need(c.Beta2 >= 0 && c.Beta2 < 1, "beta2 is %v; want 0 <= beta2 < 1", c.Beta2)
	need(c.Eps > 0 && !math.IsInf(c.Eps, 1), "eps is %v; want a positive number", c.Eps)
	need(c.WeightDecay >= 0 && !math.IsInf(c.WeightDecay, 1), "weight decay is %v; want 0 or more", c.WeightDecay)
	return errors.Join(errs...)
}

// AdamW is the optimizer of Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization" (2019), with the arithmetic of torch.optim.AdamW. Step t, from 1,
// does for every element
//
//	p -= lr * decay * p
//	m  = beta1*m + (1-beta1)*g
//	v  = beta2*v + (1-beta2)*g*g
//	p -= lr * (m / (1-beta1^t)) / (sqrt(v / (1-beta2^t)) + eps)
type AdamW struct {
	config Config
	params []Param
	state  State
}

// State is what an AdamW remembers between steps: what a checkpoint has to keep for a
// run to continue exactly.
type State struct {
	T    int         // steps done
	M, V [][]float32 // first and second moments, one slice for each parameter, in the order given to NewAdamW
}

// NewAdamW returns an optimizer of the parameters, with moments of zero. It keeps the
// slices of the parameters and gradients, not copies. Errors name the parameter.
func NewAdamW(config Config, params []Param) (*AdamW, error) {
	return NewAdamWIn(config, params, func(n int) ([]float32, error) { return make([]float32, n), nil })
}

// NewAdamWIn is NewAdamW with moments in memory from alloc, which returns n zeros. The
// caller gives that memory back, once the optimizer is used no more.
func NewAdamWIn(config Config, params []Param, alloc func(n int) ([]float32, error)) (*AdamW, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("optim: adamw: %w", err)
	}
	a := &AdamW{config: config, params: params}
	seen := make(map[string]bool, len(params))
	for _, p := range params {
		if len(p.Grad) != len(p.Value) {
			return nil, fmt.Errorf("optim: parameter %s has %d elements, but its gradient has %d", p.Name, len(p.Value),
				len(p.Grad))
		}
		if seen[p.Name] {
			return nil, fmt.Errorf("optim: parameter %s is given twice; give a tied matrix once", p.Name)
		}
		seen[p.Name] = true
		for _, moments := range []*[][]float32{&a.state.M, &a.state.V} {
			x, err := alloc(len(p.Value))
			if err != nil {
				return nil, fmt.Errorf("optim: moments of %s: %w", p.Name, err)
			}
			*moments = append(*moments, x)
		}
	}
	return a, nil
}

// SetGradients makes later steps read other gradients, in the order of the parameters, and
// each as long as its own was. It keeps the slices.
func (a *AdamW) SetGradients(grads [][]float32) error {
	if len(grads) != len(a.params) {
		return fmt.Errorf("optim: %d gradients for %d parameters", len(grads), len(a.params))
	}
	for i, p := range a.params {
		if len(grads[i]) != len(p.Value) {
			return fmt.Errorf("optim: parameter %s has %d elements, but its gradient has %d", p.Name, len(p.Value),
				len(grads[i]))
		}
	}
	for i := range a.params {
		a.params[i].Grad = grads[i]
	}
	return nil
}

// State returns the moments themselves, not copies: the next Step changes them.
func (a *AdamW) State() State { return a.state }

// SetState copies a state in, so that the next Step continues where the state was
// taken. It must come from an AdamW of the same parameters; on error nothing changes.
func (a *AdamW) SetState(s State) error {
	if s.T < 0 || len(s.M) != len(a.params) || len(s.V) != len(a.params) {
		return fmt.Errorf("optim: state of step %d has %d and %d moments; want %d of each", s.T, len(s.M), len(s.V),
			len(a.params))
	}
	for i, p := range a.params {
		if len(s.M[i]) != len(p.Value) || len(s.V[i]) != len(p.Value) {
			return fmt.Errorf("optim: parameter %s has %d elements, but its moments in the state have %d and %d",
				p.Name, len(p.Value), len(s.M[i]), len(s.V[i]))
		}
	}
	a.state.T = s.T
	for i := range a.params {
		copy(a.state.M[i], s.M[i])
		copy(a.state.V[i], s.V[i])
	}
	return nil
}

// grain is the least number of elements that are worth a goroutine of their own.
const grain = 1 << 13

// Step updates every parameter from its gradient times gradScale, which is what
// ClipCoefficient returns: clipping costs no pass over the gradients of its own.
func (a *AdamW) Step(lr, gradScale float64) {
	a.state.T++
	for i, p := range a.params {
		own := lr * cmp.Or(p.Rate, 1)
		c, m, v := a.coefficients(own, gradScale), a.state.M[i], a.state.V[i]
		if p.Decay {
			c.Keep = float32(1 - float64(own*a.config.WeightDecay))
		}
		simd.Parallel(len(p.Value), grain, func(lo, hi int) {
			c.Update(p.Value[lo:hi], p.Grad[lo:hi], m[lo:hi], v[lo:hi])
		})
	}
}

// coefficients are the numbers of one step that all elements share.
func (a *AdamW) coefficients(lr, gradScale float64) simd.AdamWStep {
	c, t := a.config, float64(a.state.T)
	return simd.AdamWStep{
		Scale: float32(gradScale),
		Keep:  1,
		Beta1: float32(c.Beta1), New1: float32(1 - c.Beta1),
		Beta2: float32(c.Beta2), New2: float32(1 - c.Beta2),
		Step:  float32(lr / (1 - math.Pow(c.Beta1, t))),
		Root2: float32(math.Sqrt(1 - math.Pow(c.Beta2, t))),
		Eps:   float32(c.Eps),
	}
}
