package trainer_test

import (
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer"
)

// TestTakenOffCountsTheSites as one says it.
func TestTakenOffCountsTheSites(t *testing.T) {
	for sites, want := range map[int]string{1: "the one site that it had, which is plain", 3: "all 3 sites that it had, which are plain"} {
		if got := trainer.TakenOff(&core.KernelError{Kernel: "k"}, sites).Error(); !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}
