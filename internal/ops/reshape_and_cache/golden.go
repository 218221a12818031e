package reshapeandcache

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded takes the caches before the call for what is in the outputs.
func recorded(r opdef.Recording) opdef.Example {
	k, cache := r.Shape("key"), r.Shape("key_cache")
	return opdef.Example{
		Facts:  core.Facts{HeadDim: k[2], KVHeads: k[1], BlockSize: cache[1]},
		Tokens: k[0], Rows: cache[0],
		Float64s: map[string][]float64{"k": r.In("key"), "v": r.In("value"), "k_cache": r.In("key_cache"),
			"v_cache": r.In("value_cache")},
		Int32s: map[string][]int32{"slots": r.Int32s("slot_mapping")},
		Want:   map[string][]float64{"k_cache": r.Out("key_cache"), "v_cache": r.Out("value_cache")},
		Exact:  map[string][]float32{"k_cache": r.Single("key_cache"), "v_cache": r.Single("value_cache")},
	}
}
