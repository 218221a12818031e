package trainer_test

import (
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/trainer/nn"
)

// TestAnObjectiveIsResumed: the noise follows from the seed and the step, so that a run that was
// given up in the middle comes to the same bits.
func TestAnObjectiveIsResumed(t *testing.T) {
	shaped := func(out string) string {
		j := resumed(t, long(t, out))
		j.Config.Objective = nn.Objective{Noise: 5, Smoothing: 0.1, Balance: 0.01, RouterZ: 0.001}
		run1(t, j)
		return out
	}
	whole := shaped(filepath.Join(t.TempDir(), "whole"))
	out := filepath.Join(t.TempDir(), "parts")
	j := long(t, out)
	j.Config.Objective = nn.Objective{Noise: 5, Smoothing: 0.1, Balance: 0.01, RouterZ: 0.001}
	dies(t, j, 5)
	sameResult(t, shaped(out), whole)
	other := resumed(t, long(t, out))
	other.Config.Objective.Noise = 4
	if _, err := other.Run(t.Context()); err == nil {
		t.Error("a run goes on with other noise")
	}
}
