package kerneltest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed98097648/tune/core"
)

// gateVariants returns facts of moe_gate: both scorings, with and without groups, among
// them groups with fewer experts than a token has, so that others fill up.
func gateVariants() []core.Facts {
	var all []core.Facts
	for i, s := range [][4]int{{1, 1, 1, 1}, {3, 1, 1, 1}, {8, 2, 1, 1}, {5, 5, 1, 1}, {33, 4, 1, 1},
		{8, 2, 4, 2}, {8, 3, 2, 1}, {8, 3, 4, 1}, {60, 6, 6, 3}, {8, 2, 4, 4}} {
		f := core.Facts{Experts: s[0], TopK: s[1], Groups: s[2], TopGroups: s[3], Normalize: i%2 == 0, Scale: 1}
		sigmoid, other := f, f
		f.Scoring = core.ScoringSoftmax
		sigmoid.Scoring, sigmoid.Bias, sigmoid.Scale = core.ScoringSigmoid, true, 2.5
		other.Scoring, other.Normalize = core.ScoringSigmoid, !f.Normalize
		all = append(all, f, sigmoid, other)
	}
	return all
}

// choiceMargin is how far apart two choices of moe_gate are at least, relative to the
// largest of the token, so that no rounding and no step of GradCheck turns them round.
const choiceMargin = 0x1p-14

// separate draws the logits of every token again until its choices are clear.
func (in *inputs) separate(rng *rand.Rand) {
	E, logits := in.Facts.Experts, in.byName["logits"][0]
	bias := make([]float64, E)
	if in.Facts.Bias {
		bias = values(in.byName["bias"][0])
	}
	v := make([]float32, E)
	for t := range in.Tokens {
		row := logits.Slice(t*E, (t+1)*E, E)
		for range 1000 {
			if isClear(in.Facts, values(row), bias) {
				break
			}
			for e := range v {
				v[e] = float32(rng.NormFloat64())
			}
			row.Store(v, 0)
		}
	}
}

// isClear reports whether nothing is decided by a narrow margin for a token: not which
// groups it takes, nor which experts in which order.
func isClear(f core.Facts, logits, bias []float64) bool {
	sum := 0.0
	for _, z := range logits {
		sum += math.Exp(z)
	}
	choices, top := make([]float64, f.Experts), 0.0
	for e, z := range logits {
		choices[e] = math.Exp(z)/sum + bias[e]
		if f.Scoring == core.ScoringSigmoid {
			choices[e] = 1/(1+math.Exp(-z)) + bias[e]
		}
		top = max(top, math.Abs(choices[e]))
	}
	margin := choiceMargin * top
	if f.Groups > 1 {
		size := f.Experts / f.Groups
		groups := make([]float64, f.Groups)
		for g := range groups {
			two := descending(choices[g*size:][:size])
			groups[g] = two[0] + two[1]
		}
		order := append(descending(groups), math.Inf(-1))
		if order[f.TopGroups-1]-order[f.TopGroups] < 2*margin {
			return false
		}
		for e := range choices {
			if groups[e/size] < order[f.TopGroups-1] {
				choices[e] = 0
			}
		}
	}
	order := append(descending(choices), math.Inf(-1))
	for k := range f.TopK {
		if order[k]-order[k+1] < margin && order[k] != 0 { // choices outside the groups are all 0
			return false
		}
	}
	return true
}

func descending(v []float64) []float64 {
	v = slices.Sorted(slices.Values(v))
	slices.Reverse(v)
	return v
}

// tied makes many logits equal, and all biases: the first of equal ones is chosen.
func tied(in map[string][]core.Tensor) {
	fillWith(in["logits"], func(i int) float32 { return float32(i * 7 % 3) })
	fillWith(in["bias"], func(int) float32 { return 0.25 })
}

// alike gives all experts the same logit.
func alike(in map[string][]core.Tensor) {
	fillWith(in["logits"], func(int) float32 { return -1 })
	fillWith(in["bias"], func(int) float32 { return -0.5 })
}

func fillWith(tensors []core.Tensor, f func(i int) float32) {
	for _, x := range tensors {
		v := make([]float32, x.Elems())
		for i := range v {
			v[i] = f(i)
		}
		x.Store(v, 0)
	}
}
