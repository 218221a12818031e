package bench

import "testing"

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
				if !(d >= -1e-12 && d <= 1e-12) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
		})
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
