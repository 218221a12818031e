package report

import (
	"slices"
	"testing"
)

func TestSmoothedLossDoesNotEndAtTheLastValue(t *testing.T) {
	got := smooth([]float64{6, 0, 3, 3, 3, 0}, 2)
	if want := []float64{3, 3, 3, 1.8, 2.25, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := smooth(nil, 2); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
