package lora

import (
	"fmt"
	"math"
)

// Rounding is what quantising has taken off the sums that MergeQuantised has made.
type Rounding struct {
	Weights   int     // matrices that were quantised again
	lost, all float64 // sums of squares: of what the sums and what is stored differ by, and of the sums
}

// Share returns how much the stored weights and the sums differ, as a share of the sums: the roots of the mean
// squares of both.
func (r Rounding) Share() float64 {
	if r.all == 0 {
		return 0
	}
	return math.Sqrt(r.lost / r.all)
}

// String says it for people.
func (r Rounding) String() string {
	return fmt.Sprintf("%d quantised weights were rounded again: they differ from the sums by %.2g%% (root mean square)",
		r.Weights, 100*r.Share())
}

// add counts a weight.
func (r *Rounding) add(sum, stored []float32) {
	r.Weights++
	for i, s := range sum {
		d := float64(s) - float64(stored[i])
		r.lost += d * d
		r.all += float64(s) * float64(s)
	}
}
