package memory

import (
	"slices"
	"testing"
)

func TestFamilyIsAProcessAndItsDescendants(t *testing.T) {
	parents := map[int]int{2: 1, 3: 2, 4: 3, 5: 1, 6: 3, 7: 5}
	got := family(2, parents)
	slices.Sort(got)
	if want := []int{2, 3, 4, 6}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
