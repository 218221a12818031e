package opbench

import "testing"

func TestPercentilesInterpolate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   Stat
	}{
		{"one value", []float64{3}, Stat{3, 3, 3}},
		{"two values", []float64{4, 2}, Stat{3, 2.2, 3.8}},
		{"any order", []float64{10, 0, 5, 1, 9, 2, 8, 3, 7, 4, 6}, Stat{5, 1, 9}},
		{"an outlier", []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1000}, Stat{1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := NewStat(tt.values); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
