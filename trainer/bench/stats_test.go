package bench

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSpeedupPairsTheStepsOfARound(t *testing.T) {
	steps := func(ms ...float64) (s []Step) {
		for _, x := range ms {
			s = append(s, Step{Whole: x})
		}
		return s
	}
	first := &variant{steps: steps(100, 300, 200)}
	v := &variant{steps: steps(50, 150, 400)} // twice as fast but for the last round
	if got := newSpread(v.speedups(first)); got.Median != 2 || !(got.P10 < 2) {
		t.Errorf("%v, want a median of 2 and a lower p10", got)
	}
}

func TestSpreadInterpolates(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"one value", []float64{3}, Spread{3, 3, 3}},
		{"two values", []float64{20, 10}, Spread{15, 11, 19}},
		{"an odd number", []float64{5, 1, 4, 2, 3}, Spread{3, 1.4, 4.6}},
		{"eleven values", []float64{10, 0, 1, 9, 2, 8, 3, 7, 4, 6, 5}, Spread{5, 1, 9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := newSpread(tt.values)
			for _, d := range []float64{got.Median - tt.want.Median, got.P10 - tt.want.P10, got.P90 - tt.want.P90} {
				if d > 1e-12 || d < -1e-12 {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
		})
	}
}

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
		got := newInterval(values)
		if got.Low != tt.low || got.High != tt.high || math.Abs(got.Confidence-tt.confidence) > 1e-12 {
			t.Errorf("%d values: %+v, want ranks %v to %v with %v", tt.n, *got, tt.low, tt.high, tt.confidence)
		}
	}
	if got := newInterval(make([]float64, leastRounds-1)); got != nil {
		t.Errorf("%d values give %+v, which cannot hold 95%%", leastRounds-1, *got)
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
		if i := newInterval(values); i.Low <= 1 && 1 <= i.High {
			held++
		}
	}
	// 97.85% is expected, with a standard deviation of 0.23%.
	if share := float64(held) / samples; share < 0.968 || share > 0.989 {
		t.Errorf("%.2f%% of the intervals hold the median, want 97.85%%", 100*share)
	}
}

func TestVerdictFollowsTheInterval(t *testing.T) {
	for want, i := range map[string]*Interval{
		"faster":              {Low: 1.01, High: 3},
		"SLOWER":              {Low: 0.5, High: 0.99},
		"no clear difference": {Low: 0.9, High: 1.1},
		"too few rounds":      nil,
	} {
		if got := i.verdict(); got != want {
			t.Errorf("%+v: %q, want %q", i, got, want)
		}
	}
}
