package kernel

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of moe_experts, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	D, I, K := f.Dim, f.Intermediate, f.TopK
	x, ids, probs := in["x"], in["expert_ids"], in["routing_weights"]
	gate, up, down := in["gate"], in["up"], in["down"]
	for e := 0; f.Layout == core.Packed && e < f.Experts; e++ {
		both := in["gate_up"][e*2*I*D:]
		gate, up = append(gate, both[:I*D]...), append(up, both[I*D:2*I*D]...)
	}
	y, saved := make([]float64, len(x)), []float64{}
	for _, a := range assignments(ids) {
		t, e := a/K, int(ids[a])
		g, u := make([]float64, I), make([]float64, I)
		for i := range I {
			for d := range D {
				g[i] += gate[(e*I+i)*D+d] * x[t*D+d]
				u[i] += up[(e*I+i)*D+d] * x[t*D+d]
			}
		}
		saved = append(append(saved, g...), u...)
		for d := range D {
			for i := range I {
				y[t*D+d] += probs[a] * down[(e*D+d)*I+i] * g[i] / (1 + math.Exp(-g[i])) * u[i]
			}
		}
	}
	return map[string][]float64{"y": y, "gate_up_out": saved}
}

// assignments returns the numbers of all choices, sorted by their expert.
func assignments(ids []float64) []int {
	order := make([]int, len(ids))
	for a := range order {
		order[a] = a
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	return order
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	packed := core.Facts{DType: core.Float32, WeightDType: core.Float32, Dim: 5, Intermediate: 3, Activation: "silu",
		Layout: core.Packed, Experts: 4, TopK: 2, Routing: core.RoutingSoftmax}
	perExpert := packed
	perExpert.Layout, perExpert.Routing = core.PerExpert, core.RoutingNormalized
	frozen := packed
	frozen.Frozen = true
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "packed", Op: core.MoEExperts, Facts: packed, Tokens: 5, Seed: 1},
		{Name: "per expert", Op: core.MoEExperts, Facts: perExpert, Tokens: 5, Seed: 2},
		{Name: "frozen weights", Op: core.MoEExperts, Facts: frozen, Tokens: 5, Seed: 3},
	})
}
