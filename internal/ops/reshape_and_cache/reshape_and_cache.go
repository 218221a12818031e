// Package reshapeandcache is the op reshape_and_cache,
//
//	for each token t with slot_t >= 0:  k_cache[slot_t] = k_t;  v_cache[slot_t] = v_t
package reshapeandcache

import (
	"math/rand/v2"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// Op is what is known of it beside its contract.
var Op = &opdef.Op{Name: core.ReshapeAndCache,
	Single: run[float32], Double: run[float64],
	Usual:   core.Facts{HeadDim: 16, KVHeads: 2, BlockSize: 8},
	Changes: []func(*core.Facts){func(f *core.Facts) { f.BlockSize = 1 }},
	Kinds:   []core.Facts{{HeadDim: 4, KVHeads: 1, BlockSize: 4}},
	Variants: []core.Facts{{HeadDim: 1, KVHeads: 1, BlockSize: 1}, {HeadDim: 7, KVHeads: 3, BlockSize: 5},
		{HeadDim: 80, KVHeads: 1, BlockSize: 16}, {HeadDim: 128, KVHeads: 2, BlockSize: 16},
		{HeadDim: 64, KVHeads: 2, BlockSize: 128}},
	Positions: 11,
	Indices:   slots,
	NotFinite: opdef.NotFinite("k", "v"),
	Zeros:     []string{"k", "v"},
	Cases: func(f core.Facts, add opdef.Adder) {
		n := 11 * f.BlockSize
		add("first and last slot", 2, set(func(t, _ int) int { return t * (n - 1) }))
		add("no slot", 5, set(func(_, _ int) int { return -1 }))
		add("any negative slot", 5, set(func(t, _ int) int { return -7 * (t + 1) }))
		add("one after the other", min(n, 40), set(func(t, _ int) int { return t }))
	},
	Extremes: func(f core.Facts, add opdef.Adder) {
		add("tokens of all scales", opdef.LadderTokens, opdef.Ladders(f.DType, 1, "k", "v"))
		add("smallest numbers", 9, opdef.Each(opdef.Tiny(f.DType), "k", "v"))
	},
	Axes: []opdef.Axis{
		{Name: "tokens", Rests: opdef.EveryRest, Step: 7, Large: []int{4102, 1029, 2050},
			Set: func(u *opdef.Use, n int) { u.Tokens, u.Positions = n, n/u.Facts.BlockSize+2 }},
		{Name: "head_dim", Rests: opdef.EveryRest, Step: 7, Large: opdef.Wide,
			Set: func(u *opdef.Use, n int) { u.Facts.HeadDim = n }},
		{Name: "kv_heads", Rests: opdef.SomeRests, Large: []int{258, 64},
			Set: func(u *opdef.Use, n int) { u.Facts.KVHeads = n }},
		{Name: "block_size", Rests: opdef.EveryRest, Large: []int{258, 256, 1024},
			Set: func(u *opdef.Use, n int) { u.Facts.BlockSize = n }},
		{Name: "blocks", Rests: opdef.EveryRest, Step: 7, Large: []int{opdef.Beyond16, 1026, 4098},
			Set: func(u *opdef.Use, n int) { u.Positions = n }},
	},
	Large: []opdef.Large{
		{Tokens: 1030, Change: func(f *core.Facts) { f.HeadDim, f.KVHeads, f.BlockSize = 130, 9, 130 }},
	},
	Terms:  func(*opdef.Inputs, core.Pass, string) []float64 { return nil }, // it adds nothing up
	Verify: func(u *opdef.Use) { u.Tokens, u.Positions = 12, 11 },
	Shapes: []opdef.Shape{
		{Name: "x8x128 blocks of 16", Facts: core.Facts{HeadDim: 128, KVHeads: 8, BlockSize: 16}},
	},
	Tokens:     []int{16, 128},
	Recordings: []string{"reshape_and_cache"}, Recorded: recorded,
	Fast: opdef.Fast{Folder: "npu_fused_paged_attention/reshapecache", Kernel: "Kernel{}"},
}

// slots are different ones in no order; some tokens have none.
func slots(in *opdef.Inputs, rng *rand.Rand, v []int32) {
	free := rng.Perm(in.Positions * in.Facts.BlockSize)
	for t := range v {
		v[t] = -1
		if t < len(free) && rng.IntN(6) > 0 {
			v[t] = int32(free[t])
		}
	}
}

// set gives token t of T a slot.
func set(f func(t, T int) int) opdef.Edit {
	return func(in map[string][]core.Tensor) {
		v := in["slots"][0].Int32s()
		for t := range v {
			v[t] = int32(f(t, len(v)))
		}
	}
}

func run[F opdef.Float](c *core.Call) {
	slots, width := c.Input("slots").Int32s(), c.Facts.KVHeads*c.Facts.HeadDim
	for _, name := range []string{"k", "v"} {
		x, cache := opdef.Values[F](c.Input(name)), c.Output(name+"_cache")
		all := opdef.Values[F](cache)
		for t, slot := range slots {
			if slot >= 0 {
				copy(all[int(slot)*width:][:width], x[t*width:])
			}
		}
		opdef.Store(cache, all)
	}
}
