package moeexperts

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
	moegate "github.com/seed98097648/tune/internal/ops/moe_gate"
)

// recorded adds the router, which the recording has and the op does not: softmax over all
// experts of gate x, the K largest, divided by their sum if so configured.
func recorded(r opdef.Recording) opdef.Example {
	var p struct {
		Experts int
		TopK    int  `json:"top_k"`
		Norm    bool `json:"norm_topk_prob"`
	}
	r.Params(&p)
	shape := r.Shape("gate_proj")
	E, I, D := shape[0], shape[1], shape[2]
	x, gate := r.In("x"), r.In("gate")
	router := core.Facts{Experts: E, TopK: p.TopK, Scoring: core.ScoringSoftmax, Groups: 1, TopGroups: 1,
		Normalize: p.Norm, Scale: 1}
	logits := opdef.ProductTransposed(x, gate, D)
	weights, ids := moegate.Forward(router, logits, make([]float64, E))

	facts := core.Facts{WeightDType: core.Float32, Dim: D, Intermediate: I, Activation: "silu",
		Layout: core.Packed, Experts: E, TopK: p.TopK, Routing: core.RoutingSoftmax}
	if p.Norm {
		facts.Routing = core.RoutingNormalized
	}
	pack := func(gate, up []float64) []float64 { return opdef.InterleaveRows(gate, up, I*D) }
	return opdef.Example{
		Facts: facts, Tokens: len(x) / D,
		Float64s: map[string][]float64{
			"x": x, "dy": r.In("d_y"), "routing_weights": weights,
			"gate_up": pack(r.In("gate_proj"), r.In("up_proj")),
			"down":    r.In("down_proj"),
		},
		Int32s: map[string][]int32{"expert_ids": ids},
		Want: map[string][]float64{
			"y": r.Out("y"), "x": r.Grad("x"), "gate": r.Grad("gate"),
			"dgate_up": pack(r.Grad("gate_proj"), r.Grad("up_proj")),
			"ddown":    r.Grad("down_proj"),
		},
		Got: func(out map[string][]float64) map[string][]float64 {
			d := moegate.Gradient(router, out["drouting_weights"], logits, ids)
			out["x"] = opdef.ProductTransposed(d, opdef.Transposed(gate, D), E)
			opdef.Axpy(out["x"], 1, out["dx"])
			out["gate"] = opdef.ProductTransposed(opdef.Transposed(d, E), opdef.Transposed(x, D), len(x)/D)
			return out
		},
	}
}
