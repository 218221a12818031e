package trainer_test

import (
	"path/filepath"
	"testing"
	"time"
)

// TestAnEndOfTimeIsAnInterrupt: a run without time for more than a step makes that one and
// is saved; going on again and again is the run that had all the time.
func TestAnEndOfTimeIsAnInterrupt(t *testing.T) {
	whole := long(t, filepath.Join(t.TempDir(), "whole"))
	whole.Config.MaxTime = 24 * time.Hour
	if s := run1(t, whole); s.TimeUp || s.Interrupted {
		t.Errorf("a run with time enough has %+v", s)
	}
	out := filepath.Join(t.TempDir(), "parts")
	for step := 1; step <= 7; step++ {
		j := resumed(t, long(t, out))
		j.Config.MaxTime = time.Nanosecond
		if s := run1(t, j); s.Steps != step || s.TimeUp != (step < 7) || s.Interrupted != s.TimeUp {
			t.Fatalf("after %d steps: %d steps, time up %v, interrupted %v", step, s.Steps, s.TimeUp, s.Interrupted)
		}
	}
	sameResult(t, out, whole.Config.Out)
}
