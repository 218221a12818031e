package confidence

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntervalIsThatOfTheTables compares with the confidence of order statistics as
// tables of the sign test give it.
func TestIntervalIsThatOfTheTables(t *testing.T) {
	for _, tt := range []struct {
		n          int
		low, high  float64 // ranks, from 1
		confidence float64
	}{
		{6, 1, 6, 0.96875},
		{8, 1, 8, 0.9921875},
		{9, 2, 8, 0.9609375},
		{10, 2, 9, 0.978515625},
		{12, 3, 10, 0.96142578125},
		{20, 6, 15, 0.9586105346679688},
	} {
		values := make([]float64, tt.n)
		for i := range values {
			values[i] = float64(tt.n - i)
		}
		got := OfMedian(values)
		if got.Low != tt.low || got.High != tt.high || !(math.Abs(got.Confidence-tt.confidence) <= 1e-12) {
			t.Errorf("%d values: %+v, want ranks %v to %v with %v", tt.n, *got, tt.low, tt.high, tt.confidence)
		}
	}
	if got := OfMedian(make([]float64, Least-1)); got != nil {
		t.Errorf("%d values give %+v, which cannot hold 95%%", Least-1, *got)
	}
}

// TestIntervalHoldsTheMedian draws many samples of a skewed distribution with median 1.
func TestIntervalHoldsTheMedian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const samples = 4000
	held := 0
	for range samples {
		values := make([]float64, 10)
		for i := range values {
			values[i] = math.Exp(rng.NormFloat64())
		}
		if i := OfMedian(values); i.Low <= 1 && 1 <= i.High {
			held++
		}
	}
	// 97.85% is expected, with a standard deviation of 0.23%.
	if share := float64(held) / samples; share < 0.968 || share > 0.989 {
		t.Errorf("%.2f%% of the intervals hold the median, want 97.85%%", 100*share)
	}
}
