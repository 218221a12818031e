package golden

import (
	"slices"

	"github.com/seed98097648/tune/core"
)

// attention makes the rows of the recording one after the other, and its table of who
// sees whom the ranges that they are.
func attention(f file, v string) example {
	q, k := f.shape(v+".in.q"), f.shape(v+".in.k")
	B, S := q[0], q[2]
	var keys []int32
	allowed := f.tensor(v + ".in.allowed").Int64s()
	for t := range B * S {
		row := allowed[t*S : (t+1)*S]
		first := max(slices.Index(row, 1), 0)
		end := first
		for end < S && row[end] == 1 {
			end++
		}
		if slices.Contains(row[end:], 1) {
			f.t.Fatalf("query %d sees keys that are no range: %v", t, row)
		}
		keys = append(keys, int32(t/S*S+first), int32(t/S*S+end))
	}
	heads := func(name string, shape []int) []float64 { return tokensFirst(f.values(v+name), shape) }
	return example{
		facts: core.Facts{HeadDim: q[3], Heads: q[1], KVHeads: k[1]}, tokens: B * S,
		float64s: map[string][]float64{
			"q": heads(".in.q", q), "k": heads(".in.k", k), "v": heads(".in.v", k), "dy": f.values(v + ".in.d_out"),
		},
		int32s: map[string][]int32{"keys": keys},
		want: map[string][]float64{
			"y": f.values(v + ".f64.out"), "dq": heads(".f64.grad.q", q), "dk": heads(".f64.grad.k", k),
			"dv": heads(".f64.grad.v", k),
		},
	}
}
