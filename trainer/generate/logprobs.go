package generate

import (
	"math"
	"slices"
)

// LogProb is a token and the natural logarithm of its probability.
type LogProb struct {
	ID      int32
	LogProb float64
}

// logProbs returns that of a token by the logits, and the n likeliest with theirs, of equally likely ones the
// first.
func logProbs(logits []float32, id int32, n int) (of float64, top []LogProb) {
	high, sum := float64(slices.Max(logits)), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - high)
	}
	least := high + math.Log(sum)
	top = make([]LogProb, 0, n+1)
	for i, l := range logits {
		if len(top) == n && (n == 0 || float64(l)-least <= top[n-1].LogProb) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, float64(l)-least, func(t LogProb, v float64) int {
			if t.LogProb >= v {
				return -1
			}
			return 1
		})
		top = slices.Insert(top, at, LogProb{int32(i), float64(l) - least})
		top = top[:min(len(top), n)]
	}
	return float64(logits[id]) - least, top
}
