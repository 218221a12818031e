package kernel

import (
	"context"

	"github.com/seed98097648/tune/core"
)

// Backward writes dlogits. No gradient passes through the choice of experts: their
// weights p depend on the scores of the chosen ones, and these on the logits. With
// sum the sum of the chosen scores and q = p/sum, where weights are divided by it:
//
//	dp      = scale * (dweight - sum over k of dweight*q) / sum, or scale * dweight
//	dscore  = dp at the ids, 0 elsewhere
//	dlogits = score * (dscore - sum over e of dscore*score)     softmax
//	dlogits = dscore * score * (1 - score)                      sigmoid
func (kernel) Backward(_ context.Context, c *core.Call) error {
	f := c.Facts
	ids := c.Input("expert_ids").Int32s()
	logits, dweights := c.Input("logits").Float32s(), c.Input("drouting_weights").Float32s()
	dlogits := c.Output("dlogits").Float32s()
	for t := range c.Tokens() {
		score := scores(f, logits[t*f.Experts:][:f.Experts])
		dscore := scoresGradient(f, score, dweights[t*f.TopK:][:f.TopK], ids[t*f.TopK:][:f.TopK])
		out, mean := dlogits[t*f.Experts:][:f.Experts], 0.0
		for e, s := range score {
			mean += dscore[e] * s
		}
		for e, s := range score {
			if f.Scoring == core.ScoringSoftmax {
				out[e] = float32(s * (dscore[e] - mean))
			} else if out[e] = 0; dscore[e] != 0 { // a NaN score that was not chosen has no gradient
				out[e] = float32(dscore[e] * s * (1 - s))
			}
		}
	}
	return nil
}

// scoresGradient returns dscore [E] of one token.
func scoresGradient(f core.Facts, score []float64, dweights []float32, ids []int32) []float64 {
	chosen := make([]int, len(ids))
	for k, e := range ids {
		chosen[k] = int(e)
	}
	sum, mean := sumOf(score, chosen), 0.0
	for k, e := range chosen {
		mean += float64(dweights[k]) * (score[e] / sum) // exactly dweights[k] for a weight of 1
	}
	dscore := make([]float64, len(score))
	for k, e := range chosen {
		if f.Normalize {
			dscore[e] += f.Scale * (float64(dweights[k]) - mean) / sum
		} else {
			dscore[e] += f.Scale * float64(dweights[k])
		}
	}
	return dscore
}
