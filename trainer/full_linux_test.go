package trainer_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestAModelThatFindsNoPlaceIsAnError that names each place that was tried.
func TestAModelThatFindsNoPlaceIsAnError(t *testing.T) {
	sandbox.FullDisk(t, func(t *testing.T, limit func(size uint64), lift func()) {
		j := job(t)
		here, home, temp := t.TempDir(), t.TempDir(), t.TempDir()
		t.Chdir(here)
		t.Setenv("HOME", home)
		t.Setenv("TMPDIR", temp)
		j.Hooks.OnStep = endAt(2, func() { limit(1) })
		var asked []bool
		j.Unsaved = func(_ context.Context, u trainer.Unsaved) bool {
			asked = append(asked, u.Nowhere)
			return false
		}
		_, err := j.Run(t.Context())
		lift()
		if err == nil || !slices.Equal(asked, []bool{false, true}) {
			t.Fatalf("error %v; whether no place was left when it asked for room: %v", err, asked)
		}
		for _, place := range []string{filepath.Dir(j.Config.Out), here, home, temp} {
			if !strings.Contains(err.Error(), "nor in "+place+": ") {
				t.Errorf("the error does not name %s: %v", place, err)
			}
			if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
				t.Errorf("left behind in %s: %v, %v", place, left, err)
			}
		}
	})
}
