package nn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer/autograd"
)

// Objective is what training adds to the plain loss of a decoder, and to what the model sees.
// Evaluations have the plain loss, but for Balance. The zero value adds nothing.
type Objective struct {
	// Noise is the alpha of NEFTune: while training, what the embedding gives has noise added,
	// uniform in +-alpha/sqrt(L D), with D its width and L the tokens of the longest row of the
	// batch. See Jain et al., "NEFTune: Noisy Embeddings Improve Instruction Finetuning" (2023);
	// L is that of transformers' neftune_noise_alpha. 0 is none.
	Noise float64 `json:"neftune_noise_alpha,omitempty"`
	// Smoothing is the share of a target that all tokens of the vocabulary have alike, in [0, 1).
	Smoothing float64 `json:"label_smoothing,omitempty"`
	// Balance is how much the load-balancing loss of routers weighs; 0 for what the model says.
	Balance float64 `json:"router_aux_loss,omitempty"`
	// RouterZ is how much the z-loss of routers weighs: the mean, over the tokens and layers, of the
	// square of log(sum(exp(logits))). See Zoph et al., "ST-MoE" (2022).
	RouterZ float64 `json:"router_z_loss,omitempty"`
}

// Validate reports every field that makes no sense.
func (o Objective) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	most := func(x float64) bool { return x >= 0 && x <= math.MaxFloat32 }
	need(most(o.Noise), "nn.Objective.Noise is %g, must not be negative", o.Noise)
	need(o.Smoothing >= 0 && o.Smoothing < 1, "nn.Objective.Smoothing is %g, must be at least 0 and below 1", o.Smoothing)
	need(most(o.Balance), "nn.Objective.Balance is %g, must not be negative", o.Balance)
	need(most(o.RouterZ), "nn.Objective.RouterZ is %g, must not be negative", o.RouterZ)
	return errors.Join(errs...)
}

// SetObjective changes what the decoder is trained for. Do so before its sites get kernels.
func (d *Decoder) SetObjective(o Objective) error {
	if err := o.Validate(); err != nil {
		return err
	}
	routed := false
	for _, l := range d.layers {
		_, sparse := l.block.(*MoE)
		routed = routed || sparse
	}
	for i, weight := range []float64{o.Balance, o.RouterZ} {
		if weight > 0 && !routed {
			return fmt.Errorf("nn.Objective.%s is %g, but no router of the model has such a loss: leave it out",
				[]string{"Balance", "RouterZ"}[i], weight)
		}
	}
	if d.objective = o; o.Balance > 0 {
		d.cfg.Balance = o.Balance
	}
	if o.Smoothing > 0 && d.loss != nil {
		siteOf(d.sites, d.loss).Plain = "its loss is smoothed, which " + string(core.LinearCrossEntropy) + " has not"
	}
	return nil
}

// noisy records the embedding's output h [T, D] with NEFTune's noise, where the graph trains. A
// number depends on the batch's noise and its place alone, like those of dropout.
func (o Objective) noisy(c *Context, h *autograd.Value) *autograd.Value {
	if o.Noise == 0 || !c.Training {
		return h
	}
	t, d, of := h.Shape()[0], h.Shape()[1], newDropout("embed_tokens.noise", 0)
	noise := c.G.ApplyAll(autograd.Op{Name: "noise", Outputs: []autograd.Spec{autograd.Float32(t, d)},
		Forward: func(_ context.Context, in, out []core.Tensor) error {
			y, m := out[0].Float32s(), of.with(in[0].Int32s())
			// A rank that has none of an epoch's last rows has a batch of padding alone.
			most := noiseMagnitude(o.Noise, max(1, longest(in[1].Int32s(), c.S)), d)
			simd.Parallel(len(y), grain, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					y[i] = most * m.uniform(i)
				}
			})
			return nil
		}}, c.noise, c.keys)[0]
	return Add(c.G, h, noise)
}

// noiseMagnitude is alpha / sqrt(length * width), as float32 has it.
func noiseMagnitude(alpha float64, length, width int) float32 {
	return float32(alpha) / float32(math.Sqrt(float64(float32(length*width))))
}

// uniform returns element i of numbers in [-1, 1).
func (m mask) uniform(i int) float32 {
	const bits = 24
	return float32(mix(m.seed+uint64(i)*increment)>>(64-bits))/(1<<(bits-1)) - 1
}

// longest returns how many tokens the longest row of a batch has, without padding at its end,
// by the keys of its tokens.
func longest(keys []int32, s int) (n int) {
	for t := range len(keys) / 2 {
		if seesItself(keys, t) {
			n = max(n, t%s+1)
		}
	}
	return n
}
