package autograd

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Weigh returns a loss that is a function of the losses of tokens, and sets its derivative by each of them.
type Weigh func(losses, slopes []float32) (loss float64, err error)

// KernelLoss returns the operation that calls a kernel of linear_cross_entropy: the loss
// is the sum of every token's loss times its share. Its inputs are x, weight and labels,
// as of the op's forward signature, and share, float32 [T].
//
// With a backward pass in the graph, one call of the kernel's backward pass, which gives
// the losses too, is all there is: the upstream gradient of each token's loss is its
// share, which is known beforehand. Without, it calls the kernel's forward pass. A frozen
// weight gets no gradient.
//
// A loss that is another function of the tokens' losses is what weigh gives, unless that is nil. Their
// upstream gradients are known only then, so that the kernel's forward pass is called before its backward pass.
func KernelLoss(k core.Kernel, f core.Facts, site string, tokens int, weigh Weigh) (Op, error) {
	fwd, err := core.NewCall(core.LinearCrossEntropy, core.Forward, f)
	if err != nil {
		return Op{}, err
	}
	bwd, err := core.NewCall(core.LinearCrossEntropy, core.Backward, f)
	if err != nil {
		return Op{}, err
	}
	fwd.Site, bwd.Site = site, site
	o := Op{Name: string(core.LinearCrossEntropy), Kernel: k.Info().Name, Outputs: []Spec{Float32(), Float32(tokens)},
		Memory: core.OutputsOf(k, nil),
		Work:   core.NewWork(core.LinearCrossEntropy, core.Forward, f, tokens, tokens),
		Backward: &Backward{Ahead: []int{0, 1},
			Work: core.NewWork(core.LinearCrossEntropy, core.Backward, f, tokens, tokens)}}
	if f.Frozen {
		o.Backward.Ahead = []int{0}
	}
	if weigh != nil {
		o.Outputs = append(o.Outputs, Float32(tokens))
		o.Backward.Work = o.Backward.Work.Plus(o.Work)
	}
	results := len(o.Outputs)
	o.Forward = func(ctx context.Context, in, out []core.Tensor) error {
		x, weight, labels, share := in[0], in[1], in[2], in[3]
		loss, losses, gradients := out[0].Float32s(), out[1], out[results:]
		run := func(call *core.Call) error {
			call.Set("x", x)
			call.Set("weight", weight)
			call.Set("labels", labels)
			call.Set("losses", losses)
			return core.Run(ctx, k, call)
		}
		if weigh != nil {
			if err := run(fwd); err != nil {
				return err
			}
			value, err := weigh(losses.Float32s(), out[2].Float32s())
			if loss[0], share = float32(value), out[2]; err != nil || len(gradients) == 0 {
				return err
			}
		}
		call := fwd
		if len(gradients) > 0 {
			call = bwd
			call.Set("dlosses", share)
			call.Set("dx", gradients[0])
			if !f.Frozen {
				call.Set("dweight", gradients[1])
			}
		}
		if err := run(call); err != nil || weigh != nil {
			return err
		}
		loss[0] = float32(shared(losses.Float32s(), share.Float32s()))
		return nil
	}
	return o, nil
}

// shared is the sum of the losses of tokens, each times its share.
func shared(losses, shares []float32) (sum float64) {
	for t, l := range losses {
		sum += float64(l) * float64(shares[t])
	}
	return sum
}
