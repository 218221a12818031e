package kernel

import (
	"context"
	"math"

	"github.com/seed98097648/tune/core"
)

// Forward writes routing_weights and expert_ids.
func (kernel) Forward(_ context.Context, c *core.Call) error {
	f := c.Facts
	logits, bias := c.Input("logits").Float32s(), make([]float32, f.Experts)
	if f.Bias {
		bias = c.Input("bias").Float32s()
	}
	weights, ids := c.Output("routing_weights").Float32s(), c.Output("expert_ids").Int32s()
	for t := range c.Tokens() {
		score := scores(f, logits[t*f.Experts:][:f.Experts])
		chosen := choose(f, score, bias)
		sum := 1.0
		if f.Normalize {
			sum = sumOf(score, chosen)
		}
		for i, e := range chosen {
			weights[t*f.TopK+i] = float32(f.Scale * score[e] / sum)
			ids[t*f.TopK+i] = int32(e)
		}
	}
	return nil
}

// scores returns the scores of one token. They are in float64 from here on: a token has
// few of them, and which is larger than which decides.
func scores(f core.Facts, logits []float32) []float64 {
	s := make([]float64, len(logits))
	if f.Scoring == core.ScoringSigmoid {
		for e, z := range logits {
			s[e] = 1 / (1 + math.Exp(-float64(z)))
		}
		return s
	}
	high, sum := logits[0], 0.0
	for _, z := range logits {
		high = max(high, z)
	}
	for e, z := range logits {
		s[e] = math.Exp(float64(z) - float64(high))
		sum += s[e]
	}
	for e := range s {
		s[e] /= sum
	}
	return s
}

// sumOf is what the weights of the chosen experts are divided by. Sigmoids may all vanish.
func sumOf(score []float64, chosen []int) float64 {
	sum := 1e-20
	for _, e := range chosen {
		sum += score[e]
	}
	return sum
}

// choose returns the experts of one token, the best first.
func choose(f core.Facts, score []float64, bias []float32) []int {
	choice := make([]float64, f.Experts)
	for e, s := range score {
		choice[e] = s + float64(bias[e])
	}
	if f.TopGroups == f.Groups {
		return best(choice, f.TopK)
	}
	size := f.Experts / f.Groups
	groups := make([]float64, f.Groups)
	for g := range groups {
		of := choice[g*size:][:size]
		two := best(of, 2)
		groups[g] = of[two[0]] + of[two[1]]
	}
	within := make([]float64, f.Experts) // 0 and not -Inf outside: it may beat a negative choice
	for _, g := range best(groups, f.TopGroups) {
		copy(within[g*size:][:size], choice[g*size:])
	}
	return best(within, f.TopK)
}

// best returns where the k largest values are, largest first. Of equal ones the first
// comes first, and NaN counts as larger than any number.
func best(v []float64, k int) []int {
	taken := make([]bool, len(v))
	at := make([]int, k)
	for i := range at {
		at[i] = -1
		for j, x := range v {
			if !taken[j] && (at[i] < 0 || x > v[at[i]] || x != x && v[at[i]] == v[at[i]]) {
				at[i] = j
			}
		}
		taken[at[i]] = true
	}
	return at
}
