package pagedattention

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded has one query for each sequence where the recording says nothing of that.
func recorded(r opdef.Recording) opdef.Example {
	q, cache, tables := r.Shape("query"), r.Shape("key_cache"), r.Shape("block_tables")
	var params struct {
		Scale  float64 `json:"scale"`
		Window int     `json:"sliding_window"`
	}
	r.Params(&params)
	e := opdef.Example{
		Facts: core.Facts{HeadDim: q[2], Heads: q[1], KVHeads: cache[2], BlockSize: cache[1], Scale: params.Scale,
			Window: params.Window},
		Tokens: q[0], Rows: cache[0], Sequences: tables[0], Places: tables[1],
		Float64s: map[string][]float64{"q": r.In("query"), "k_cache": r.In("key_cache"), "v_cache": r.In("value_cache")},
		Int32s:   map[string][]int32{"block_tables": r.Int32s("block_tables"), "seq_lens": r.Int32s("seq_lens")},
		Want:     map[string][]float64{"y": r.Out("out")},
	}
	if r.Has("query_lens") {
		e.Int32s["query_lens"] = r.Int32s("query_lens")
		return e
	}
	for range tables[0] {
		e.Int32s["query_lens"] = append(e.Int32s["query_lens"], 1)
	}
	return e
}
