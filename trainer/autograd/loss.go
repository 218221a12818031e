package autograd

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// KernelLoss returns the operation that calls a kernel of linear_cross_entropy: the loss
// is the sum of every token's loss times its share. Its inputs are x, weight and labels,
// as of the op's forward signature, and share, float32 [T].
//
// With a backward pass in the graph, one call of the kernel's backward pass, which gives
// the losses too, is all there is: the upstream gradient of each token's loss is its
// share, which is known beforehand. Without, it calls the kernel's forward pass. A frozen
// weight gets no gradient.
func KernelLoss(k core.Kernel, f core.Facts, site string, tokens int) (Op, error) {
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
	o.Forward = func(ctx context.Context, in, out []core.Tensor) error {
		x, weight, labels, share := in[0], in[1], in[2], in[3]
		loss, losses, gradients := out[0].Float32s(), out[1], out[2:]
		call := fwd
		if len(gradients) > 0 {
			call = bwd
			call.Set("dlosses", share)
			call.Set("dx", gradients[0])
			if !f.Frozen {
				call.Set("dweight", gradients[1])
			}
		}
		call.Set("x", x)
		call.Set("weight", weight)
		call.Set("labels", labels)
		call.Set("losses", losses)
		if err := core.Run(ctx, k, call); err != nil {
			return err
		}
		sum := 0.0
		for t, l := range losses.Float32s() {
			sum += float64(l) * float64(share.Float32s()[t])
		}
		loss[0] = float32(sum)
		return nil
	}
	return o, nil
}
