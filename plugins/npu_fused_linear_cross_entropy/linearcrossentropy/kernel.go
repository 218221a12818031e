// Package linearcrossentropy is the kernel of the plugin npu_fused_linear_cross_entropy,
// for the op linear_cross_entropy. T tokens, D dim, V vocabulary:
//
//	z = weight x_t                        the logits, never stored for all tokens
//	loss_t = log(sum of exp(z)) - z[label_t]
//	dz = dloss_t * (softmax(z) - [v = label_t])
//	dx_t = weight^T dz    dweight = sum over t of dz x_t^T
//
//	x, dx [T,D] and weight [V,D] in storage precision; labels [T] int32
//	losses, dlosses [T] and dweight [V,D] float32
//	saved: nothing; the backward pass gives the losses too
//
// A token without a label costs nothing: the rows of the others are gathered. They are
// worked on a chunk at a time, so that scratch memory is bounded: the logits of a chunk
// become their own gradient where they are, and then are a factor of two products.
package linearcrossentropy

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_linear_cross_entropy"
	Version = "0.1.0"
)

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16}

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory
// from call to call.
type Kernel struct {
	targets []int     // the tokens that have a label
	x       []float32 // [rows of a chunk, D]: their rows of x
	dx      []float32 // [rows of a chunk, D]
	logits  []float32 // [rows of a chunk, V], or their gradient
}

// Info implements core.Kernel.
func (*Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.LinearCrossEntropy, Version: Version,
		Summary: "the head and its loss, without the logits", DTypes: dtypes, Backward: true}
}

// Supports implements core.Kernel: float32, bfloat16 and float16, in any sizes.
func (*Kernel) Supports(f core.Facts) error {
	if err := f.Validate(core.LinearCrossEntropy); err != nil {
		return fmt.Errorf("%s: %w: %w", Name, core.ErrNotSupported, err)
	}
	for _, d := range []core.DType{f.DType, f.WeightDType} {
		if !slices.Contains(dtypes, d) {
			return fmt.Errorf("%s: %w: storage %s; it can be %v", Name, core.ErrNotSupported, d, dtypes)
		}
	}
	return nil
}

// prepare checks a call and finds its targets.
func (k *Kernel) prepare(ctx context.Context, c *core.Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.Supports(c.Facts); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	k.targets = k.targets[:0]
	for t, label := range c.Input("labels").Int32s() {
		if int(label) >= c.Facts.Vocab {
			return fmt.Errorf("%s: %w: labels[%d] is %d, the vocabulary has %d", Name, core.ErrBadCall, t, label, c.Facts.Vocab)
		}
		if label >= 0 {
			k.targets = append(k.targets, t)
		}
	}
	return nil
}
