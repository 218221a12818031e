package attention

import (
	"fmt"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded makes the rows of the recording one after the other, and its table of who
// sees whom the ranges that they are.
func recorded(r opdef.Recording) opdef.Example {
	q, k := r.Shape("q"), r.Shape("k")
	B, S := q[0], q[2]
	var keys []int32
	allowed := r.Tensor(r.Variant + ".in.allowed").Int64s()
	for t := range B * S {
		row := allowed[t*S : (t+1)*S]
		first := max(slices.Index(row, 1), 0)
		end := first
		for end < S && row[end] == 1 {
			end++
		}
		if slices.Contains(row[end:], 1) {
			panic(fmt.Sprintf("query %d of %s sees keys that are no range: %v", t, r.Variant, row))
		}
		keys = append(keys, int32(t/S*S+first), int32(t/S*S+end))
	}
	return opdef.Example{
		Facts: core.Facts{HeadDim: q[3], Heads: q[1], KVHeads: k[1]}, Tokens: B * S,
		Float64s: map[string][]float64{
			"q": opdef.TokensFirst(r.In("q"), q), "k": opdef.TokensFirst(r.In("k"), k),
			"v": opdef.TokensFirst(r.In("v"), k), "dy": r.In("d_out"),
		},
		Int32s: map[string][]int32{"keys": keys},
		Want: map[string][]float64{
			"y": r.Out("out"), "dq": opdef.TokensFirst(r.Grad("q"), q), "dk": opdef.TokensFirst(r.Grad("k"), k),
			"dv": opdef.TokensFirst(r.Grad("v"), k),
		},
	}
}
