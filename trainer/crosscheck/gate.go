package crosscheck

import (
	"math"
	"slices"

	"github.com/seed98097648/tune/core"
)

// least is added to the sum that weights are divided by.
const least = 1e-20

// moeGate compares the weights with those of the experts that the kernel has chosen, and
// the choice by its scores: of experts whose scores differ by no more than rounding explains, a
// kernel may choose either.
func moeGate(c *core.Call) []worst {
	f, logits := c.Facts, c.Input("logits").Float32s()
	if c.Pass == core.Backward {
		return gateBackward(c, logits)
	}
	var bias []float32
	if f.Bias {
		bias = c.Input("bias").Float32s()
	}
	ids, weights := c.Output("expert_ids").Int32s(), c.Output("routing_weights").Float32s()
	found := named("expert_ids", "routing_weights")
	each(found, c.Tokens(), f.Experts, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			scores, relative := scored(f, logits[t*f.Experts:][:f.Experts])
			chosen := ids[t*f.TopK:][:f.TopK]
			if !chooses(f, scores, bias, chosen, relative, t*f.TopK, &found[0]) {
				continue
			}
			want, high := weighed(f, scores, chosen)
			for k, w := range want {
				found[1].see(t*f.TopK+k, float64(weights[t*f.TopK+k]), w, within(4*relative, high))
			}
		}
	})
	return found
}

// scored returns the scores of one token, and their relative error: of an exponential whose
// argument is a difference of logits, and of the sum.
func scored(f core.Facts, logits []float32) (scores []float64, relative float64) {
	scores = make([]float64, len(logits))
	if f.Scoring == core.ScoringSigmoid {
		for e, z := range logits {
			scores[e] = 1 / (1 + math.Exp(-float64(z)))
		}
		return scores, few
	}
	high, low := float64(slices.Max(logits)), float64(slices.Min(logits))
	sum := 0.0
	for e, z := range logits {
		scores[e] = math.Exp(float64(z) - high)
		sum += scores[e]
	}
	for e := range scores {
		scores[e] /= sum
	}
	// Scores of less than tiny do not count, however wrong they are.
	return scores, few + 2*unit*min(high-low, -math.Log(tiny)) + rounding(len(logits))
}

// chooses judges the ids of one token, of which the first is element at, and reports
// whether they are experts at all, each once. The numbers of a mismatch are the choice's
// score, and that of the expert which the plain formulas take in its place; of an id that
// is none they are the id, and nothing.
func chooses(f core.Facts, scores []float64, bias []float32, ids []int32, relative float64, at int,
	found *worst) bool {
	choice, size := slices.Clone(scores), slices.Clone(scores)
	for e, b := range bias {
		choice[e] += float64(b)
		size[e] += math.Abs(float64(b))
	}
	for k, id := range ids {
		if id < 0 || int(id) >= f.Experts || slices.Contains(ids[:k], id) {
			*found = worst{tensor: found.tensor, at: at + k, got: float64(id), want: math.NaN(), ratio: math.Inf(1)}
			return false
		}
	}
	limit := within(2*relative, slices.Max(size))
	if f.TopGroups < f.Groups && !keepGroups(f, choice, 4*limit) {
		return true // groups with the same score: any choice of experts may follow
	}
	best := slices.Clone(choice)
	slices.SortFunc(best, func(a, b float64) int {
		switch {
		case a > b || a != a && b == b:
			return -1
		case a == b || a != a && b != b:
			return 0
		}
		return 1
	})
	for k, id := range ids {
		found.see(at+k, choice[id], best[k], limit)
	}
	return true
}

// keepGroups makes the choice of experts outside the best groups 0, and reports whether
// the last group that is kept is better than the first that is not by more than the limit.
func keepGroups(f core.Facts, choice []float64, limit float64) bool {
	size := f.Experts / f.Groups
	sums, order := make([]float64, f.Groups), make([]int, f.Groups)
	for g := range sums {
		two := slices.Clone(choice[g*size:][:size])
		slices.Sort(two)
		sums[g], order[g] = two[size-1]+two[size-2], g
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if sums[a] > sums[b] {
			return -1
		}
		return 1
	})
	for _, g := range order[f.TopGroups:] {
		clear(choice[g*size:][:size])
	}
	return sums[order[f.TopGroups-1]]-sums[order[f.TopGroups]] > limit
}

// denominator returns what the scores of a token's experts are divided by.
func denominator(f core.Facts, scores []float64, ids []int32) float64 {
	if !f.Normalize {
		return 1
	}
	sum := least
	for _, id := range ids {
		sum += scores[id]
	}
	return sum
}

// weighed returns the weights of the experts that were chosen, and the largest.
func weighed(f core.Facts, scores []float64, ids []int32) (weights []float64, high float64) {
	sum := denominator(f, scores, ids)
	for _, id := range ids {
		weights = append(weights, scores[id]/sum*f.Scale)
	}
	return weights, slices.Max(weights)
}

// gateBackward goes back through the weights and the scores, as core/reference has it, with
// the size of the terms beside each value.
func gateBackward(c *core.Call, logits []float32) []worst {
	f := c.Facts
	ids, dweights, dlogits := c.Input("expert_ids").Int32s(), c.Input("drouting_weights").Float32s(),
		c.Output("dlogits").Float32s()
	found := named("dlogits")
	each(found, c.Tokens(), f.Experts, func(lo, hi int, found []worst) {
		for t := lo; t < hi; t++ {
			scores, relative := scored(f, logits[t*f.Experts:][:f.Experts])
			dscores, sizes := scoreGradients(f, scores, ids[t*f.TopK:][:f.TopK], dweights[t*f.TopK:][:f.TopK])
			var mean, size float64
			for e, p := range scores {
				mean += p * dscores[e]
				size += p * sizes[e]
			}
			for e, p := range scores {
				want, terms := p*(dscores[e]-mean), p*(sizes[e]+size)
				if f.Scoring == core.ScoringSigmoid {
					want, terms = dscores[e]*p*(1-p), sizes[e]*p
				}
				found[0].see(t*f.Experts+e, float64(dlogits[t*f.Experts+e]), want, within(8*relative+2*rounding(f.TopK), terms))
			}
		}
	})
	return found
}

// scoreGradients returns the gradient of each score, and the size of its terms.
func scoreGradients(f core.Facts, scores []float64, ids []int32, dweights []float32) (grads, sizes []float64) {
	grads, sizes = make([]float64, f.Experts), make([]float64, f.Experts)
	sum, mean, size := denominator(f, scores, ids), 0.0, 0.0
	for k, id := range ids {
		d := float64(dweights[k]) * f.Scale
		mean += d * (scores[id] / sum)
		size += math.Abs(d) * (scores[id] / sum)
	}
	if !f.Normalize {
		mean, size = 0, 0
	}
	for k, id := range ids {
		d := float64(dweights[k]) * f.Scale
		grads[id] += (d - mean) / sum
		sizes[id] += (math.Abs(d) + size) / sum
	}
	return grads, sizes
}
