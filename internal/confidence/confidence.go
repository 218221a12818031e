// Package confidence says how far a median of measurements may be off.
package confidence

import (
	"math"
	"slices"
)

// Interval holds the true median of a distribution with the probability of Confidence.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // at least 0.95
}

// confidence is what an interval must hold at least.
const confidence = 0.95

// Least is how many values an interval takes: one from the smallest to the largest of n misses the
// median if all lie on one side of it, with probability 2/2^n.
const Least = 6

// OfMedian returns the shortest interval between two order statistics, alike from
// both ends, that holds the median of the distribution with a probability of at least
// 95%; nil with fewer values than Least. How many of n independent values lie below
// the median is binomial with p = 1/2, whatever their distribution, so that is exact:
//
//	P(x_(j) <= median <= x_(n+1-j)) >= 1 - 2*P(Bin(n, 1/2) < j)
//
// (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).
func OfMedian(values []float64) *Interval {
	n := len(values)
	if n < Least {
		return nil
	}
	v := slices.Sorted(slices.Values(values))
	j, below := 0, 0.0 // below is P(Bin(n, 1/2) < j)
	for {
		next := below + binomial(n, j)
		if 1-2*next < confidence {
			break
		}
		j, below = j+1, next
	}
	return &Interval{Low: v[j-1], High: v[n-j], Confidence: 1 - 2*below}
}

// binomial returns P(Bin(n, 1/2) = k).
func binomial(n, k int) float64 {
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return math.Exp(lg(n) - lg(k) - lg(n-k) - float64(n)*math.Ln2)
}
