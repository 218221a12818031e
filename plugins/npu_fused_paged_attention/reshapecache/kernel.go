// Package reshapecache is the kernel of the plugin npu_fused_paged_attention for the op reshape_and_cache. T
// tokens, KV heads of C elements:
//
//	for each token t with slots[t] >= 0:  k_cache[slots[t]] = k[t];  v_cache[slots[t]] = v[t]
//
//	k, v [T,KV,C], slots int32 [T]; k_cache, v_cache [P,block_size,KV,C]
package reshapecache

import (
	"context"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/vector"
)

// Name and Version are the plugin's, and of the kernel when it is linked into a program.
const (
	Name    = "npu_fused_paged_attention"
	Version = "0.1.0"
)

// Kernel implements core.Kernel; its zero value is ready.
type Kernel struct{ core.ForwardOnly }

// Info implements core.Kernel.
func (Kernel) Info() core.Info {
	return core.Info{Name: Name, Op: core.ReshapeAndCache, Version: Version,
		Summary: "keys and values of new tokens into a paged cache",
		DTypes:  []core.DType{core.Float32, core.BFloat16, core.Float16}}
}

// Supports implements core.Kernel: any heads and blocks, in float32, bfloat16 and float16.
func (k Kernel) Supports(f core.Facts) error { return k.Info().Supports(f) }

// grain is how many bytes make it worth another goroutine.
const grain = 1 << 18

// Forward writes the slots. What it copies it does not look at, so the bits of a NaN stay.
func (Kernel) Forward(_ context.Context, c *core.Call) error {
	slots := c.Input("slots").Int32s()
	row := c.Facts.KVHeads * c.Facts.HeadDim * c.Facts.DType.Size()
	k, v, keys, values := c.Input("k").Data, c.Input("v").Data, c.Output("k_cache").Data, c.Output("v_cache").Data
	vector.Parallel(len(slots), max(1, grain/row), func(lo, hi int) {
		for t := lo; t < hi; t++ {
			if slot := int(slots[t]); slot >= 0 {
				copy(keys[slot*row:][:row], k[t*row:])
				copy(values[slot*row:][:row], v[t*row:])
			}
		}
	})
	return nil
}
