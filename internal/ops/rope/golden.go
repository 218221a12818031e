package rope

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded makes every token of the recording a row of the tables: they are recorded per
// token, and each angle twice.
func recorded(r opdef.Recording) opdef.Example {
	q, k, tables := r.Shape("q"), r.Shape("k"), r.Tensor(r.Variant+".f64.cos").Shape
	T, width := q[0]*q[2], tables[2]
	facts := core.Facts{Pairing: core.Half, RotaryDim: width, HeadDim: q[3], Heads: q[1], KVHeads: k[1]}
	if r.Variant == "partial_interleaved" || r.Variant == "full_interleaved" {
		facts.Pairing = core.Interleaved
	}
	cos, _ := opdef.Halves(r.Out("cos"), width/2)
	sin, _ := opdef.Halves(r.Out("sin"), width/2)
	positions := make([]int32, T)
	for i := range positions {
		positions[i] = int32(i)
	}
	return opdef.Example{
		Facts: facts, Tokens: T, Rows: T,
		Float64s: map[string][]float64{
			"q": opdef.TokensFirst(r.In("q"), q), "k": opdef.TokensFirst(r.In("k"), k),
			"dq_out": opdef.TokensFirst(r.In("d_q"), q), "dk_out": opdef.TokensFirst(r.In("d_k"), k),
			"cos": cos, "sin": sin,
		},
		Int32s: map[string][]int32{"positions": positions},
		Want: map[string][]float64{
			"q_out": opdef.TokensFirst(r.Out("q"), q), "k_out": opdef.TokensFirst(r.Out("k"), k),
			"dq": opdef.TokensFirst(r.Grad("q"), q), "dk": opdef.TokensFirst(r.Grad("k"), k),
		},
	}
}
