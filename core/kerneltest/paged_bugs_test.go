package kerneltest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
	"github.com/seed98097648/tune/core/reference"
)

// withIndices runs a call with another input of indices.
func withIndices(name string, f func(c *core.Call, v []int32)) func(runFunc, *core.Call) error {
	return func(run runFunc, c *core.Call) error {
		other := *c
		other.In = slices.Clone(c.In)
		x := core.NewTensor(core.Int32, c.Input(name).Shape...)
		copy(x.Data, c.Input(name).Data)
		f(c, x.Int32s())
		other.Set(name, x)
		return run(&other)
	}
}

// TestBugsInBlocksAreFound has what goes wrong where tokens lie in blocks.
func TestBugsInBlocksAreFound(t *testing.T) {
	attention := core.Facts{DType: core.Float32, HeadDim: 8, Heads: 4, KVHeads: 2, BlockSize: 4, Scale: 0.3}
	windowed := attention
	windowed.Window = 5
	cache := core.Facts{DType: core.Float32, HeadDim: 8, KVHeads: 2, BlockSize: 4}
	for _, b := range []struct {
		name, want string
		op         core.Op
		f          core.Facts
		bug        func(runFunc, *core.Call) error
	}{
		{"a block table read one too far", "forward y", core.PagedAttention, attention,
			withIndices("block_tables", func(c *core.Call, v []int32) {
				places := c.Input("block_tables").Shape[1]
				for i := range v {
					if v[i] >= 0 && i%places+1 < places && v[i+1] >= 0 {
						v[i] = v[i+1]
					}
				}
			})},
		{"a token behind the last", "forward y", core.PagedAttention, attention,
			withIndices("seq_lens", func(c *core.Call, v []int32) {
				for b := range v {
					if v[b]%int32(c.Facts.BlockSize) != 0 {
						v[b]++
					}
				}
			})},
		{"a window of one more", "forward y", core.PagedAttention, windowed,
			withFacts(func(f *core.Facts) { f.Window++ })},
		{"the scale of head_dim", "forward y", core.PagedAttention, attention,
			withFacts(func(f *core.Facts) { f.Scale = 0.35355 })},
		{"unused slots times 0", "not finite in the same places", core.PagedAttention, attention,
			after("y", func(c *core.Call, v []float32) {
				for _, x := range c.Input("v_cache").Float32s() {
					v[0] += 0 * x
				}
			})},
		{"tables with a place for each block", "forward y", core.PagedAttention, attention,
			where(func(c *core.Call) bool { return c.Input("block_tables").Shape[1] != c.Input("k_cache").Shape[0] })},
		{"a sequence for each token", "forward y", core.PagedAttention, attention,
			where(func(c *core.Call) bool { return c.Input("query_lens").Shape[0] != c.Tokens() })},
		{"a stale slot", "forward k_cache", core.ReshapeAndCache, cache,
			withIndices("slots", func(_ *core.Call, v []int32) { v[len(v)-1] = -1 })},
		{"a slot beside the right one", "forward v_cache", core.ReshapeAndCache, cache,
			withIndices("slots", func(c *core.Call, v []int32) {
				for i, s := range v {
					if next := s ^ 1; s >= 0 && !slices.Contains(v, next) {
						v[i] = next
					}
				}
			})},
		{"rounds what it stores", "to the bit", core.ReshapeAndCache, cache,
			after("k_cache", func(_ *core.Call, v []float32) { v[0] *= 1 + 0x1p-23 })},
		{"clears what is not stored", "forward k_cache", core.ReshapeAndCache, cache,
			func(run runFunc, c *core.Call) error {
				clear(c.Output("k_cache").Data)
				return run(c)
			}},
	} {
		t.Run(b.name, func(t *testing.T) {
			err := kerneltest.Check(faulty{reference.Single(b.op), b.bug}, kerneltest.CasesFor(b.op, b.f))
			if err == nil || !strings.Contains(err.Error(), b.want) {
				t.Errorf("not caught: want a violation with %q, got %.500v", b.want, err)
			}
			if err := kerneltest.Verify(t.Context(), faulty{reference.Single(b.op), b.bug}, b.f); err == nil &&
				b.name != "unused slots times 0" {
				t.Error("not caught by what a plan asks")
			}
		})
	}
}
