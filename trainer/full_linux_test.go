package trainer_test

import (
	"context"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/journal"
)

// TestADiskThatIsFullAtTheEndCostsNoLineOfTheJournal, if room is made for the model: a limit of the size of files is
// reached in the last step, and lifted when the run says that it cannot save.
func TestADiskThatIsFullAtTheEndCostsNoLineOfTheJournal(t *testing.T) {
	sandbox.FullDisk(t, func(t *testing.T, limit func(size uint64), lift func()) {
		j := job(t)
		asked := 0
		j.Hooks.OnStep = func(s trainer.Step) {
			if s.Step == 2 {
				limit(1)
			}
		}
		j.Unsaved = func(context.Context, trainer.Unsaved) bool {
			asked++
			lift()
			return asked == 1
		}
		s := run1(t, j)
		if asked != 1 || s.Out == "" {
			t.Fatalf("it asked %d times for room, and saved %q", asked, s.Out)
		}
		r, err := journal.Read(s.Out)
		if err != nil {
			t.Fatal(err)
		}
		if r.End == nil || len(r.Steps) != s.Steps {
			t.Errorf("the journal has %d of %d steps, and the end %+v", len(r.Steps), s.Steps, r.End)
		}
	})
}
