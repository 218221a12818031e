package moeexperts

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
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
	to := router{D: D, E: E, K: p.TopK, norm: p.Norm, x: x, gate: gate}
	to.route()

	facts := core.Facts{WeightDType: core.Float32, Dim: D, Intermediate: I, Activation: "silu",
		Layout: core.Packed, Experts: E, TopK: p.TopK, Routing: core.RoutingSoftmax}
	if p.Norm {
		facts.Routing = core.RoutingNormalized
	}
	pack := func(gate, up []float64) []float64 {
		var out []float64
		for ; len(gate) > 0; gate, up = gate[I*D:], up[I*D:] {
			out = append(append(out, gate[:I*D]...), up[:I*D]...)
		}
		return out
	}
	return opdef.Example{
		Facts: facts, Tokens: len(x) / D,
		Float64s: map[string][]float64{
			"x": x, "dy": r.In("d_y"), "routing_weights": to.weights,
			"gate_up": pack(r.In("gate_proj"), r.In("up_proj")),
			"down":    r.In("down_proj"),
		},
		Int32s: map[string][]int32{"expert_ids": to.ids},
		Want: map[string][]float64{
			"y": r.Out("y"), "x": r.Grad("x"), "gate": r.Grad("gate"),
			"dgate_up": pack(r.Grad("gate_proj"), r.Grad("up_proj")),
			"ddown":    r.Grad("down_proj"),
		},
		Got: func(out map[string][]float64) map[string][]float64 {
			out["x"], out["gate"] = to.gradient(out["dx"], out["drouting_weights"])
			return out
		},
	}
}

// router is a softmax top-k router in float64: x [T,D], gate [E,D].
type router struct {
	D, E, K int
	norm    bool
	x, gate []float64
	probs   []float64 // [T,E]
	ids     []int32   // [T,K]
	weights []float64 // [T,K]
}

func (r *router) route() {
	for x := r.x; len(x) > 0; x = x[r.D:] {
		probs, sum := make([]float64, r.E), 0.0
		ids := make([]int32, r.E)
		for e := range probs {
			logit := 0.0
			for i, w := range r.gate[e*r.D:][:r.D] {
				logit += w * x[i]
			}
			probs[e], ids[e] = math.Exp(logit), int32(e)
			sum += probs[e]
		}
		for e := range probs {
			probs[e] /= sum
		}
		slices.SortFunc(ids, func(a, b int32) int { return cmp.Compare(probs[b], probs[a]) })
		sum = 1
		if r.norm {
			sum = 0
			for _, e := range ids[:r.K] {
				sum += probs[e]
			}
		}
		for _, e := range ids[:r.K] {
			r.ids, r.weights = append(r.ids, e), append(r.weights, probs[e]/sum)
		}
		r.probs = append(r.probs, probs...)
	}
}

// gradient carries the gradient of the weights on to the router's inputs: the total
// gradient of x, and that of gate.
func (r *router) gradient(dx, dweights []float64) (x, gate []float64) {
	x, gate = slices.Clone(dx), make([]float64, len(r.gate))
	for t := range len(dx) / r.D {
		ids, weights, dw := r.ids[t*r.K:][:r.K], r.weights[t*r.K:][:r.K], dweights[t*r.K:][:r.K]
		probs := r.probs[t*r.E:][:r.E]
		mean := 0.0 // of dw, weighted: what normalising takes off
		sum := 1.0
		if r.norm {
			sum = 0
			for k, e := range ids {
				sum += probs[e]
				mean += dw[k] * weights[k]
			}
		}
		dprobs := make([]float64, r.E)
		dot := 0.0
		for k, e := range ids {
			dprobs[e] = (dw[k] - mean) / sum
			dot += dprobs[e] * probs[e]
		}
		for e, p := range probs {
			dlogit := p * (dprobs[e] - dot)
			for i := range r.D {
				x[t*r.D+i] += dlogit * r.gate[e*r.D+i]
				gate[e*r.D+i] += dlogit * r.x[t*r.D+i]
			}
		}
	}
	return x, gate
}
