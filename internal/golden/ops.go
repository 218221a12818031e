package golden

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
)

func rmsNorm(f file, v string) example {
	var p struct{ Eps float64 }
	f.params(v, &p)
	D := f.shape(v + ".in.weight")[0]
	x := f.values(v + ".in.x")
	return example{
		facts:  core.Facts{WeightDType: core.Float32, Dim: D, Eps: p.Eps, Cast: core.CastBeforeWeight},
		tokens: len(x) / D,
		float64s: map[string][]float64{
			"x": x, "weight": f.values(v + ".in.weight"), "dy": f.values(v + ".in.d_y"),
		},
		want: map[string][]float64{
			"y": f.values(v + ".f64.y"), "dx": f.values(v + ".f64.grad.x"), "dweight": f.values(v + ".f64.grad.weight"),
		},
	}
}

func addRMSNorm(f file, v string) example {
	e := rmsNorm(f, v)
	e.float64s["residual"], e.float64s["dh"] = f.values(v+".in.res"), f.values(v+".in.d_h")
	e.want["h"], e.want["dresidual"] = f.values(v+".f64.h"), f.values(v+".f64.grad.res")
	e.got = func(out map[string][]float64) map[string][]float64 {
		out["dresidual"] = out["dx"] // one gradient for both
		return out
	}
	return e
}

func swiglu(f file, v string) example {
	shape := f.shape(v + ".in.gate")
	I := shape[len(shape)-1]
	gate := f.values(v + ".in.gate")
	return example{
		facts:  core.Facts{Intermediate: I, Activation: "silu", Layout: core.Separate},
		tokens: len(gate) / I,
		float64s: map[string][]float64{
			"gate": gate, "up": f.values(v + ".in.up"), "dy": f.values(v + ".in.d_y"),
		},
		want: map[string][]float64{
			"y": f.values(v + ".f64.y"), "dgate": f.values(v + ".f64.grad.gate"), "dup": f.values(v + ".f64.grad.up"),
		},
	}
}

// rope makes every token of the recording a row of the tables: they are recorded per
// token, and each angle twice.
func rope(f file, v string) example {
	q, k, tables := f.shape(v+".in.q"), f.shape(v+".in.k"), f.shape(v+".f64.cos")
	T, width := q[0]*q[2], tables[2]
	facts := core.Facts{Pairing: core.Half, RotaryDim: width, HeadDim: q[3], Heads: q[1], KVHeads: k[1]}
	if v == "partial_interleaved" || v == "full_interleaved" {
		facts.Pairing = core.Interleaved
	}
	tokensFirst := func(name string, shape []int) []float64 { return tokensFirst(f.values(v+name), shape) }
	firstHalf := func(name string) []float64 {
		var dst []float64
		for src := f.values(v + name); len(src) > 0; src = src[width:] {
			dst = append(dst, src[:width/2]...)
		}
		return dst
	}
	positions := make([]int32, T)
	for i := range positions {
		positions[i] = int32(i)
	}
	return example{
		facts: facts, tokens: T, rows: T,
		float64s: map[string][]float64{
			"q": tokensFirst(".in.q", q), "k": tokensFirst(".in.k", k),
			"dq_out": tokensFirst(".in.d_q", q), "dk_out": tokensFirst(".in.d_k", k),
			"cos": firstHalf(".f64.cos"), "sin": firstHalf(".f64.sin"),
		},
		int32s: map[string][]int32{"positions": positions},
		want: map[string][]float64{
			"q_out": tokensFirst(".f64.q", q), "k_out": tokensFirst(".f64.k", k),
			"dq": tokensFirst(".f64.grad.q", q), "dk": tokensFirst(".f64.grad.k", k),
		},
	}
}

// tokensFirst turns [B, heads, S, D] into [B*S, heads, D].
func tokensFirst(src []float64, shape []int) (dst []float64) {
	B, H, S, D := shape[0], shape[1], shape[2], shape[3]
	for b := range B {
		for s := range S {
			for h := range H {
				dst = append(dst, src[((b*H+h)*S+s)*D:][:D]...)
			}
		}
	}
	return dst
}

// moe adds the router, which the recording has and the op does not: softmax over all
// experts of gate x, the K largest, divided by their sum if so configured.
func moe(f file, v string) example {
	var p struct {
		Experts int
		TopK    int  `json:"top_k"`
		Norm    bool `json:"norm_topk_prob"`
	}
	f.params(v, &p)
	shape := f.shape(v + ".in.gate_proj")
	E, I, D := shape[0], shape[1], shape[2]
	x, gate := f.values(v+".in.x"), f.values(v+".in.gate")
	r := router{D: D, E: E, K: p.TopK, norm: p.Norm, x: x, gate: gate}
	r.route()

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
	return example{
		facts: facts, tokens: len(x) / D,
		float64s: map[string][]float64{
			"x": x, "dy": f.values(v + ".in.d_y"), "routing_weights": r.weights,
			"gate_up": pack(f.values(v+".in.gate_proj"), f.values(v+".in.up_proj")),
			"down":    f.values(v + ".in.down_proj"),
		},
		int32s: map[string][]int32{"expert_ids": r.ids},
		want: map[string][]float64{
			"y": f.values(v + ".f64.y"), "x": f.values(v + ".f64.grad.x"), "gate": f.values(v + ".f64.grad.gate"),
			"dgate_up": pack(f.values(v+".f64.grad.gate_proj"), f.values(v+".f64.grad.up_proj")),
			"ddown":    f.values(v + ".f64.grad.down_proj"),
		},
		got: func(out map[string][]float64) map[string][]float64 {
			out["x"], out["gate"] = r.gradient(out["dx"], out["drouting_weights"])
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
