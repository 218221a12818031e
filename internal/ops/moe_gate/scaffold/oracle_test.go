package kernel

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/kerneltest"
)

// oracle is the formula of moe_gate, as it is printed.
func oracle(f core.Facts, in map[string][]float64) map[string][]float64 {
	var weights, ids []float64
	for z := in["logits"]; len(z) > 0; z = z[f.Experts:] {
		score, choice, total := make([]float64, f.Experts), make([]float64, f.Experts), 0.0
		for e := range score {
			total += math.Exp(z[e])
		}
		for e := range score {
			score[e] = math.Exp(z[e]) / total
			if f.Scoring == core.ScoringSigmoid {
				score[e] = 1 / (1 + math.Exp(-z[e]))
			}
			choice[e] = score[e]
			if f.Bias {
				choice[e] += in["bias"][e]
			}
		}
		if f.Groups > 1 {
			group := make([]float64, f.Groups)
			size := f.Experts / f.Groups
			for g := range group {
				order := descending(choice[g*size:][:size])
				group[g] = choice[g*size+order[0]] + choice[g*size+order[1]]
			}
			for _, g := range descending(group)[f.TopGroups:] {
				clear(choice[g*size:][:size])
			}
		}
		kept, sum := descending(choice)[:f.TopK], 1e-20
		for _, e := range kept {
			sum += score[e]
		}
		if !f.Normalize {
			sum = 1
		}
		for _, e := range kept {
			weights, ids = append(weights, f.Scale*score[e]/sum), append(ids, float64(e))
		}
	}
	return map[string][]float64{"routing_weights": weights, "expert_ids": ids}
}

// descending returns where the values of v are, the largest first.
func descending(v []float64) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v[b], v[a]) })
	return order
}

// TestAgreesWithTheFormula compares outputs with the oracle's, and gradients with its
// differences.
func TestAgreesWithTheFormula(t *testing.T) {
	softmax := core.Facts{DType: core.Float32, Experts: 9, TopK: 3, Scoring: core.ScoringSoftmax,
		Groups: 1, TopGroups: 1, Scale: 1}
	normalized := softmax
	normalized.Normalize = true
	sigmoid := core.Facts{DType: core.Float32, Experts: 12, TopK: 3, Scoring: core.ScoringSigmoid, Bias: true,
		Groups: 4, TopGroups: 2, Normalize: true, Scale: 2.5}
	kerneltest.RunOracle(t, kernel{}, oracle, []kerneltest.Case{
		{Name: "softmax", Op: core.MoEGate, Facts: softmax, Tokens: 5, Seed: 1},
		{Name: "divided by the sum", Op: core.MoEGate, Facts: normalized, Tokens: 5, Seed: 2},
		{Name: "sigmoid in groups, with a bias", Op: core.MoEGate, Facts: sigmoid, Tokens: 5, Seed: 3},
	})
}
