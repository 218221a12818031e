//go:build ignore

package core

import "fmt"

// ReshapeAndCache stores the keys and values of new tokens in the blocks of a cache.
const ReshapeAndCache Op = "reshape_and_cache"

var reshapeAndCache = contract{op: ReshapeAndCache, forwardOnly: true,
	valid: func(f Facts, need func(ok bool, what string)) {
		need(f.HeadDim > 0 && f.KVHeads > 0, "head_dim and kv_heads must be positive")
		need(f.BlockSize > 0, "block_size must be positive")
	},
	signature: reshapeAndCacheSignature,
	check: func(c *Call) error {
		taken := map[int32]int{}
		for t, slot := range c.Input("slots").Int32s() {
			if other, ok := taken[slot]; ok && slot >= 0 {
				return fmt.Errorf("slots[%d] is %d, which slots[%d] is, too", t, slot, other)
			}
			taken[slot] = t
		}
		return nil
	},
	work: stores,
	workOf: func(c *Call) Work { // the caches are not written whole
		w := stores(Forward, c.Facts, float64(c.Tokens()), 0)
		w.Bytes = -2 * int64(len(c.Out[0].Data)-len(c.In[0].Data))
		return w
	},
}

// stores counts an operation for each element, so that calls can be told by their size.
func stores(_ Pass, f Facts, t, _ float64) Work {
	return Work{Elementwise: 2 * t * float64(f.KVHeads*f.HeadDim)}
}

// reshapeAndCacheSignature: the slot of a token is block*block_size plus its place there, negative for a token that is
// not to be stored.
func reshapeAndCacheSignature(pass Pass, f Facts) Signature {
	if pass == Backward {
		return Signature{}
	}
	k := Arg{Name: "k", DType: f.DType, Shape: Shape{DimT, f.KVHeads, f.HeadDim}}
	cache := Arg{Name: "k_cache", DType: f.DType, Shape: Shape{DimP, f.BlockSize, f.KVHeads, f.HeadDim}, Keeps: true}
	return Signature{In: []Arg{k, named(k, "v"),
		{Name: "slots", DType: Int32, Shape: Shape{DimT},
			Points: Points{To: DimP, Each: f.BlockSize, Some: true, Of: "the cache has %d slots"}},
	}, Out: []Arg{cache, named(cache, "v_cache")}}
}
