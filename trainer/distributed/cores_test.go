package distributed

import (
	"runtime"
	"testing"
)

// TestRanksShareWhatAControlGroupLeaves sets what the Go runtime finds out about that by itself.
func TestRanksShareWhatAControlGroupLeaves(t *testing.T) {
	cores := runtime.NumCPU()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3 * cores)) // no group leaves more than there is: the effect is the same
	t.Setenv("GOMAXPROCS", "")
	for sharers, want := range map[int]int{1: 3 * cores, 3: cores, 3*cores + 1: 1} {
		if got := share(sharers); got != want {
			t.Errorf("%d of %d ranks have %d threads each, want %d", sharers, sharers, got, want)
		}
	}
	t.Setenv("GOMAXPROCS", "1")
	if got := share(1); got != cores {
		t.Errorf("with GOMAXPROCS given, a rank has %d threads, want %d", got, cores)
	}
}
