package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/optim"
)

// addOptim adds the flags that say how parameters are updated, which bench has too.
func addOptim(f *pflag.FlagSet, c *trainer.Config) {
	f.Var(value{"optimizer", func() string { return string(c.Optimizer.Kind) }, func(text string) (err error) {
		c.Optimizer.Kind, err = optim.ParseKind(text)
		return err
	}}, "optim", "the `OPTIMIZER`, or transformers' name for it: "+
		strings.Join(optim.Kinds(), ", "))
	f.Var(zeroable("decay", &c.Optimizer.Momentum, func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= 0 && x < 1) {
			return 0, strconv.ErrRange
		}
		return x, nil
	}), "momentum", "`DECAY` of the mean of gradients, for sgd, 0.9 unless given, "+
		"and muon, 0.95")
	f.StringVar(&c.Optimizer.Weights, "weights", trainer.F32, "`TYPE` in which the weights are stored while they are "+
		"trained: float32, or bf16 for matrices in bfloat16 alone, rounded at random after each update, and saved so")
	f.BoolVar(&c.Optimizer.UpdateInBackward, "update-in-backward", false, "update each weight as soon as its gradient "+
		"is complete, so that few gradients are in memory at a time; --clip then goes by the norm of the step before")
}

// addFactors adds those that make no difference to the time and memory of an update.
func addFactors(f *pflag.FlagSet, c *trainer.Config) {
	f.BoolVar(&c.Optimizer.MuonMatchRMS, "muon-match-rms", false, "muon's steps are as large as AdamW's of the same "+
		"learning rate")
	f.Float64Var(&c.Beta1, "adam-beta1", c.Beta1, "`DECAY` of AdamW's first moment; lion's beta1")
	f.Float64Var(&c.Beta2, "adam-beta2", c.Beta2, "`DECAY` of AdamW's second moment; lion's beta2")
	f.Float64Var(&c.Epsilon, "adam-epsilon", c.Epsilon, "`NUMBER` that is added to the root of AdamW's second moment")
}

// noteUpdates says what clipping comes to where the norm of all gradients is not known in time.
func (a *app) noteUpdates(c trainer.Config) {
	switch {
	case !c.Optimizer.UpdateInBackward:
	case c.Clip > 0:
		a.note0("weights are updated in the backward pass: gradients are clipped to %g by the norm of the step "+
			"before, in the first step by its own; --clip 0 does not clip", c.Clip)
	default:
		a.note0("weights are updated in the backward pass, and gradients are not clipped")
	}
}
