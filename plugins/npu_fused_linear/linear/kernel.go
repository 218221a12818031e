// Package linear is the kernel of the plugin npu_fused_linear, for the op linear. T tokens,
// D dim, N out, R rank of the adapter:
//
//	u = scale * x A^T
//	y = x weight^T + bias + u B^T
//
//	x, dx [T,D]; y, dy [T,N] in storage precision; weight [N,D] in its own, which int8 and NF4 have
//	multiplied by weight_scale [N], a number for each row
//	bias [N], A = lora_a [R,D], B = lora_b [N,R] and all gradients of weights float32
//	saved: nothing but the inputs
//
// With products in bfloat16 all factors but scale are rounded to that on their way to the tiles.
//
// The bias is there before the product is added to it, and the adapter's part is added to what
// is still in the cache: no pass over y but those of products.
package linear

import (
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_linear"
	Version = "0.1.0"
)

var adds = []string{"dweight"}

var dtypes = []core.DType{core.Float32, core.BFloat16, core.Float16, core.Int8, core.NF4}

// Kernel implements core.Kernel; its zero value is ready. It keeps its scratch memory from call to
// call.
type Kernel struct {
	// Multiply computes products that do not depend on each other; nil for vector.Multiply.
	Multiply vector.Multiplier

	tiles []vector.TileProduct
	kept  vector.Kept // the weights that are frozen
	u, v  []float32   // [T,R]: what A makes of x, and B of dy
	nf4   vector.NF4
	wide  []float32 // [T,D] or [T,N]: dx or y before it is rounded to storage, unless that is float32
}

// Info implements core.Kernel.
func (k *Kernel) Info() core.Info {
	i := core.Info{Name: Name, Op: core.Linear, Version: Version,
		Summary: "a linear layer with its bias and its adapter", DTypes: dtypes, Backward: true,
		Rounds: []core.DType{core.BFloat16}}
	if k.Multiply == nil { // which adds a sum once, if it has few terms
		i.Adds, i.AddsTokens = adds, vector.StepTerms
		i.Keeps = true
	}
	return i
}

// Supports implements core.Kernel: all that the op has, in float32, bfloat16 and float16, and weights in
// int8 and NF4 as well; products in bfloat16 where there are tiles.
func (k *Kernel) Supports(f core.Facts) error {
	if f.Products == core.BFloat16 && !vector.HasTiles() {
		return fmt.Errorf("%s: %w: products in bfloat16; this processor has no tiles for them, and without it gains nothing",
			Name, core.ErrNotSupported)
	}
	return k.Info().Supports(f)
}

// multiply computes products, on tiles where the processor has them: its products have other bits than those of
// the plain form in any case, and few rows are left to Multiply, which reads a weight once for them. If the first
// product is that with the weight of the call, this is packed once for all calls where it is frozen.
func (k *Kernel) multiply(c *core.Call, weight bool, products ...vector.Product) {
	for i := range products {
		products[i].A.Rounded = c.Facts.Products == core.BFloat16
		products[i].B.Rounded = products[i].A.Rounded
	}
	switch {
	case k.Multiply != nil:
		k.Multiply(products...)
	case products[0].M > vector.FewRows:
		k.tiles = k.tiles[:0]
		for _, p := range products {
			k.tiles = append(k.tiles, vector.TileProduct{Product: p})
		}
		if weight && c.Facts.Frozen {
			k.kept.Right(&k.tiles[0], 0, weights(c)...)
		}
		vector.MultiplyTiles(k.tiles...)
		clear(k.tiles) // they hold on to the operands
	default:
		vector.Multiply(products...)
	}
}
