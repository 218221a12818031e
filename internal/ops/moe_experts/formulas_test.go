package moeexperts

import (
	"slices"
	"testing"
)

func TestRoutingOrderIsStableByExpert(t *testing.T) {
	r := newRouting([]int32{2, 0, 0, 2, 2, 0}, make([]float64, 6))
	if want := []int{1, 2, 5, 0, 3, 4}; !slices.Equal(r.order, want) {
		t.Errorf("order %v, want %v", r.order, want)
	}
}
