package trainer

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/nearest"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/optim"
)

// Optimizer says how a run updates its parameters.
type Optimizer struct {
	Kind optim.Kind `json:"optim"`
	// Momentum is that of SGD and Muon: 0 for the usual one, negative for none.
	Momentum     float64 `json:"momentum,omitempty"`
	MuonMatchRMS bool    `json:"muon_match_rms,omitempty"` // see optim.Config.MatchRMS

	// Weights is BF16 for matrices that are stored and updated in bfloat16 alone, and saved so, or float32 or "".
	Weights string `json:"weights,omitempty"`

	UpdateInBackward bool `json:"update_in_backward,omitempty"` // see EngineConfig
}

// name returns that of the optimizer.
func (o Optimizer) name() string { return string(cmp.Or(o.Kind, optim.AdamW)) }

// The types of weights.
const (
	F32  = "float32"
	BF16 = "bf16"
)

func (o Optimizer) narrow() bool { return o.Weights == BF16 }

func (o Optimizer) validate(accumulate int, adapters bool) error {
	if err := nearest.OneOf("trainer.Optimizer.Weights", cmp.Or(o.Weights, F32), F32, BF16); err != nil {
		return err
	}
	if o.narrow() && adapters {
		return errors.New("trainer.Optimizer.Weights is bf16, but adapters are trained, which are float32; their base is " +
			"stored as its files have it: leave it out")
	}
	if err := nearest.OneOf("trainer.Optimizer.Kind", o.name(), optim.Kinds()...); err != nil {
		return err
	}
	if !(o.Momentum < 1) {
		return fmt.Errorf("trainer.Optimizer.Momentum is %g, must be below 1", o.Momentum)
	}
	if o.Momentum != 0 && o.Kind != optim.SGD && o.Kind != optim.Muon {
		return fmt.Errorf("trainer.Optimizer.Momentum is given for %s: only sgd and muon have one", o.name())
	}
	if o.MuonMatchRMS && o.Kind != optim.Muon {
		return fmt.Errorf("trainer.Optimizer.MuonMatchRMS is given for %s: it is for muon alone", o.name())
	}
	if o.UpdateInBackward && accumulate > 1 {
		return fmt.Errorf("trainer.Optimizer.UpdateInBackward with trainer.Config.Accumulate of %d: %w", accumulate, errSums)
	}
	return nil
}

// OptimConfig returns what the optimizer of the run is.
func (c Config) OptimConfig() optim.Config {
	o := optim.Config{Kind: c.Optimizer.Kind, Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Epsilon, WeightDecay: c.WeightDecay,
		MatchRMS: c.Optimizer.MuonMatchRMS, Momentum: max(c.Optimizer.Momentum, 0), Seed: c.Seed}
	if c.Optimizer.Momentum == 0 {
		o.Momentum = o.Kind.DefaultMomentum()
	}
	return o
}

// buildOptimizer makes the optimizer, of the tensors that forecast.Params says.
func (e *Engine) buildOptimizer() (err error) {
	params := forecast.Params(e.model)
	var grads [][]float32
	if !e.cfg.UpdateInBackward {
		grads = e.byTensor(e.grads)
	}
	i := 0
	for _, p := range e.model.Trainable() {
		decay, rate := e.cfg.NoDecay == nil || !e.cfg.NoDecay(p), 0.0
		if e.cfg.Rate != nil {
			rate = e.cfg.Rate(p)
		}
		var parts []part
		for _, entry := range p.Entries {
			parts = append(parts, part{i, entry.Offset, entry.Offset + entry.Shape.Elems()})
			o := &params[i]
			if view := entry.View(p.Tensor); view.DType == core.BFloat16 {
				o.Half = view.Uint16s()
			} else {
				o.Value = view.Float32s()
			}
			o.Decay, o.Rate = decay, rate
			if grads != nil {
				o.Grad = grads[i]
			}
			i++
		}
		e.tensorsOf = append(e.tensorsOf, parts)
	}
	e.opt, err = optim.New(e.cfg.Optim, e.shardOf(params), e.allocHost)
	return err
}

// byTensor divides gradients of the parameters into those of the tensors of files.
func (e *Engine) byTensor(grads [][]float32) [][]float32 {
	var all [][]float32
	if e.ranks.shards() && e.opt != nil {
		for _, s := range e.shard {
			all = append(all, grads[s.param][s.from:s.to])
		}
		return all
	}
	for i, p := range e.model.Trainable() {
		for _, entry := range p.Entries {
			all = append(all, grads[i][entry.Offset:][:entry.Shape.Elems()])
		}
	}
	return all
}

// allocHost returns zeros in memory that no kernel sees, until Close.
func (e *Engine) allocHost(n int) ([]byte, error) {
	b, err := e.host.Alloc(n)
	if err == nil {
		e.freed = append(e.freed, b)
	}
	return b, err
}

// StateBytes returns the memory that the optimizer takes besides parameters and gradients.
func (e *Engine) StateBytes() int64 { return e.cfg.Optim.Bytes(forecast.Params(e.model)) }
