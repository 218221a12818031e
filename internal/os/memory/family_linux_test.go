package memory

import (
	"os"
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

func TestAFamilyHasWhatItsProcessesHave(t *testing.T) {
	me := os.Getpid()
	if n, least := OfFamily(me), proportional(me)/2; least == 0 || n < least {
		t.Errorf("%d bytes, at least %d are this process's", n, least)
	}
	if n := OfFamily(1 << 30); n != 0 {
		t.Errorf("%d bytes of a process that is not there", n)
	}
}
