package linearcrossentropy

import (
	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

// recorded has the recorded logits as x, and the identity as weight: then dx
// is the gradient of the logits.
func recorded(r opdef.Recording) opdef.Example {
	shape := r.Shape("logits")
	V := shape[len(shape)-1]
	x := r.In("logits")
	T := len(x) / V
	identity := make([]float64, V*V)
	for i := range V {
		identity[i*V+i] = 1
	}
	var p struct {
		Items int `json:"num_items_in_batch"`
	}
	r.Params(&p)
	labels, targets := shifted(r.Tensor(r.Variant+".in.labels").Int64s(), shape), 0
	for _, y := range labels {
		if y >= 0 {
			targets++
		}
	}
	if p.Items > 0 {
		targets = p.Items
	}
	dlosses := make([]float64, T)
	for t := range dlosses {
		dlosses[t] = 1 / float64(targets)
	}
	return opdef.Example{
		Facts: core.Facts{WeightDType: core.Float32, Dim: V, Vocab: V}, Tokens: T,
		Float64s: map[string][]float64{"x": x, "weight": identity, "dlosses": dlosses},
		Int32s:   map[string][]int32{"labels": labels},
		Want:     map[string][]float64{"loss": {r.Out("loss")[0]}, "dx": r.Grad("logits")},
		Got: func(out map[string][]float64) map[string][]float64 {
			sum := 0.0
			for _, l := range out["losses"] {
				sum += l
			}
			out["loss"] = []float64{sum / float64(targets)}
			return out
		},
	}
}

// shifted makes the labels of logits [B, S, V] those of the next position; of logits
// [T, V] they are right as they are.
func shifted(labels []int64, shape []int) []int32 {
	out := make([]int32, len(labels))
	for t, y := range labels {
		out[t] = int32(y)
		if len(shape) == 3 {
			if out[t] = -100; t%shape[1] < shape[1]-1 {
				out[t] = int32(labels[t+1])
			}
		}
	}
	return out
}
