package moegate

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded adds the linear layer that makes the logits, which the recording has and the op
// does not: x [T,D], gate [E,D], logits = x gate^T. What is recorded of the weights is
// dense, 0 for experts that a token does not go to. The backward pass gets the experts
// that were recorded.
func recorded(r opdef.Recording) opdef.Example {
	var p struct {
		TopK      int     `json:"top_k"`
		Norm      bool    `json:"norm_topk_prob"`
		Groups    int     `json:"n_group"`
		TopGroups int     `json:"topk_group"`
		Scale     float64 `json:"routed_scaling_factor"`
	}
	r.Params(&p)
	shape := r.Shape("gate")
	E, D := shape[0], shape[1]
	x, w := r.In("x"), r.In("gate")
	T := len(x) / D
	facts := core.Facts{Experts: E, TopK: p.TopK, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1,
		Normalize: p.Norm, Scale: 1}
	inputs := map[string][]float64{"logits": opdef.ProductTransposed(x, w, D)}
	if p.Groups > 0 { // GLM's
		facts.Scoring, facts.Bias = core.ScoringSigmoid, true
		facts.Groups, facts.TopGroups, facts.Scale = p.Groups, p.TopGroups, p.Scale
		inputs["bias"] = r.In("bias")
	}
	var ids []int32
	upstream := r.In("d_dense_weights")
	for i, e := range r.Tensor(r.Variant + ".out.topk_index").Int64s() {
		ids = append(ids, int32(e))
		inputs["drouting_weights"] = append(inputs["drouting_weights"], upstream[i/p.TopK*E+int(e)])
	}
	dense := r.Out("dense_weights")
	return opdef.Example{Facts: facts, Tokens: T, Float64s: inputs, Int32s: map[string][]int32{"expert_ids": ids},
		Want: map[string][]float64{"dense": dense, "x": zeroed(r.Grad("x")),
			"gate": zeroed(r.Grad("gate"))},
		Got: func(out map[string][]float64) map[string][]float64 {
			got := make([]float64, T*E)
			for i, e := range out["expert_ids"] {
				got[i/p.TopK*E+int(e)] = out["routing_weights"][i]
			}
			for t := range T {
				if row := got[t*E:][:E]; bothOutside(facts, inputs, t, row, dense[t*E:][:E]) {
					copy(row, dense[t*E:])
				}
			}
			d := out["dlogits"]
			return map[string][]float64{"dense": got, "x": opdef.ProductTransposed(d, opdef.Transposed(w, D), E),
				"gate": opdef.ProductTransposed(opdef.Transposed(d, E), opdef.Transposed(x, D), T)}
		},
	}
}

// bothOutside reports whether two choices of experts for token t differ, but only in experts
// outside the token's groups: their choices are all 0, and which of them is taken is
// nobody's business in the published code.
func bothOutside(facts core.Facts, inputs map[string][]float64, t int, a, b []float64) bool {
	if facts.Groups == 1 {
		return false
	}
	E, differ := facts.Experts, false
	choices := scored(facts, inputs["logits"][t*E:][:E])
	opdef.Axpy(choices, 1, inputs["bias"])
	groups := groupChoices(facts, choices)
	least := descending(groups)[facts.TopGroups-1]
	for e := range E {
		if (a[e] == 0) == (b[e] == 0) {
			continue
		}
		if differ = true; groups[e*facts.Groups/E] >= least {
			return false
		}
	}
	return differ
}

// zeroed replaces what rounding has left of a gradient that is zero, as that of the one
// weight of a token is where weights are divided by their sum.
func zeroed(v []float64) []float64 {
	if slices.ContainsFunc(v, func(x float64) bool { return math.Abs(x) > 1e-12 }) {
		return v
	}
	return make([]float64, len(v))
}
