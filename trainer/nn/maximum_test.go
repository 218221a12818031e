package nn

import (
	"math"
	"testing"
)

// TestTheMaximumIsThatOfAllOrNoNumber whatever the length, and whoever of the threads has it.
func TestTheMaximumIsThatOfAllOrNoNumber(t *testing.T) {
	for _, n := range []int{1, 4097, 300_001} {
		for _, at := range []int{0, n / 2, n - 1} {
			x := make([]float32, n)
			for i := range x {
				x[i] = -float32(i%9) - 1
			}
			for _, v := range []float32{-0.5, 3e38, float32(math.Inf(1)), float32(math.NaN())} {
				x[at] = v
				if got := maximumOf(x); math.Float32bits(got) != math.Float32bits(v) && !(v != v && got != got) {
					t.Errorf("%d numbers, %g at %d: %g", n, v, at, got)
				}
			}
		}
	}
}
