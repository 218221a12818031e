package moegate

import (
	"math"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/opdef"
)

func runMoEGate[F opdef.Float](c *core.Call) {
	f := c.Facts
	logits := opdef.Values[F](c.Input("logits"))
	if c.Pass == core.Forward {
		bias := make([]F, f.Experts)
		if f.Bias {
			bias = opdef.Values[F](c.Input("bias"))
		}
		weights, ids := Forward(f, logits, bias)
		opdef.Store(c.Output("routing_weights"), weights)
		copy(c.Output("expert_ids").Int32s(), ids)
		return
	}
	ids := c.Input("expert_ids").Int32s()
	opdef.Store(c.Output("dlogits"), Gradient(f, opdef.Values[F](c.Input("drouting_weights")), logits, ids))
}

// Forward returns weights and ids [T,K] for logits [T,E].
func Forward[F opdef.Float](f core.Facts, logits, bias []F) (weights []F, ids []int32) {
	for ; len(logits) > 0; logits = logits[f.Experts:] {
		scores := scored(f, logits[:f.Experts])
		chosen := choose(f, scores, bias)
		kept, sum := make([]F, f.TopK), F(denominatorFloor)
		for k, e := range chosen {
			kept[k] = scores[e]
			sum += kept[k]
		}
		if !f.Normalize {
			sum = 1
		}
		for _, p := range kept {
			weights = append(weights, p/sum*F(f.Scale))
		}
		ids = append(ids, chosen...)
	}
	return weights, ids
}

// denominatorFloor is added to the sum that weights are divided by: sigmoids may all
// vanish.
const denominatorFloor = 1e-20

// scored returns the scores of one token.
func scored[F opdef.Float](f core.Facts, logits []F) []F {
	scores := append([]F(nil), logits...)
	if f.Scoring == core.ScoringSoftmax {
		opdef.Softmax(scores)
		return scores
	}
	for e, z := range logits {
		scores[e] = F(1 / (1 + math.Exp(-float64(z))))
	}
	return scores
}

// choose returns the ids of the experts of one token, the best first.
func choose[F opdef.Float](f core.Facts, scores, bias []F) []int32 {
	choices := make([]F, f.Experts)
	for e, s := range scores {
		choices[e] = s + bias[e]
	}
	if f.TopGroups == f.Groups {
		return best(choices, f.TopK)
	}
	size := f.Experts / f.Groups
	outside := make([]bool, f.Groups)
	for g := range outside {
		outside[g] = true
	}
	for _, g := range best(groupChoices(f, choices), f.TopGroups) {
		outside[g] = false
	}
	for e := range choices {
		if outside[e/size] {
			choices[e] = 0 // not -Inf: it may still beat a negative choice
		}
	}
	return best(choices, f.TopK)
}

// groupChoices returns the sum of the two best choices of each group.
func groupChoices[F opdef.Float](f core.Facts, choices []F) []F {
	size, sums := f.Experts/f.Groups, make([]F, f.Groups)
	for g := range sums {
		of := choices[g*size:][:size]
		two := best(of, 2)
		sums[g] = of[two[0]] + of[two[1]]
	}
	return sums
}

// best returns where the k largest values are, largest first; of equal ones the first
// comes first, and NaN counts as larger than any number.
func best[F opdef.Float](v []F, k int) []int32 {
	taken := make([]bool, len(v))
	var ids []int32
	for range k {
		at := -1
		for i, x := range v {
			if !taken[i] && (at < 0 || x > v[at] || x != x && v[at] == v[at]) {
				at = i
			}
		}
		taken[at] = true
		ids = append(ids, int32(at))
	}
	return ids
}

// Gradient returns dlogits [T,E]. It computes the scores again.
func Gradient[F opdef.Float](f core.Facts, dweights, logits []F, ids []int32) []F {
	E, K := f.Experts, f.TopK
	dlogits := make([]F, len(logits))
	for t := range len(logits) / E {
		scores, ids := scored(f, logits[t*E:][:E]), ids[t*K:][:K]
		dkept := append([]F(nil), dweights[t*K:][:K]...)
		sum, mean := F(denominatorFloor), F(0) // mean is of dkept, weighted by what normalizing makes of the scores
		for _, e := range ids {
			sum += scores[e]
		}
		for k, e := range ids {
			dkept[k] *= F(f.Scale)
			mean += dkept[k] * (scores[e] / sum) // exactly dkept for a weight of 1
		}
		dscores := make([]F, E)
		for k, e := range ids {
			if f.Normalize {
				dkept[k] = (dkept[k] - mean) / sum
			}
			dscores[e] += dkept[k]
		}
		scoredGradient(f, dlogits[t*E:][:E], dscores, scores, ids)
	}
	return dlogits
}

// scoredGradient carries the gradient of one token's scores on to its logits. With
// sigmoids, only those of its experts have one.
func scoredGradient[F opdef.Float](f core.Facts, dlogits, dscores, scores []F, ids []int32) {
	if f.Scoring == core.ScoringSoftmax {
		mean := opdef.Dot(dscores, scores)
		for e, p := range scores {
			dlogits[e] = p * (dscores[e] - mean)
		}
		return
	}
	for _, e := range ids {
		dlogits[e] = dscores[e] * scores[e] * (1 - scores[e])
	}
}
