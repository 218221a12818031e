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
// A token without a label costs nothing: the rows of the others are gathered. The logits
// of as many of them as D lie in dweight while it is not needed for anything else: row v
// of dweight is made of the logits of v alone, so that a part of the vocabulary after the
// other becomes its gradient where it is. The tokens that are left, all of them where the
// weight is frozen, come in chunks with scratch memory of bounded size.
package linearcrossentropy

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
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
	// Multiply computes the products; nil for the fastest of vector.
	Multiply vector.Multiplier

	targets []target
	x, dx   []float32 // [targets of a chunk, D]
	tile    []float32 // [targets of a chunk, width of a span]: logits, or their gradient
	logits  []float32 // those of a chunk that has no room in dweight
	highs   []float32 // [targets of a chunk, spans]
	kept    vector.Kept
	most    int // bytes of the logits of a chunk, for tests; 0 for chunkBytes or frozenBytes
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.LinearCrossEntropy, Version: Version,
		Summary: "the head and its loss, without the logits", DTypes: dtypes, Backward: true,
		Keeps: k.Multiply == nil && vector.HasTiles()}
}

// Supports implements core.Kernel: float32, bfloat16 and float16, in any sizes.
func (k *Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// find finds the targets of a call.
func (k *Kernel) find(c *core.Call) {
	k.targets = k.targets[:0]
	for t, label := range c.Input("labels").Int32s() {
		if label >= 0 {
			k.targets = append(k.targets, target{token: t, label: int(label), high: float32(math.Inf(-1))})
		}
	}
}
