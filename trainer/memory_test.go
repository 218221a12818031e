package trainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/trainer"
)

// TestARunThatCannotFitIsRefused has a batch that takes hundreds of gigabytes.
func TestARunThatCannotFitIsRefused(t *testing.T) {
	if memory.Available() == 0 {
		t.Skip("nothing tells here how much memory is free")
	}
	j := job(t)
	j.Config.Batch = 1 << 21
	_, err := j.Run(t.Context())
	if short, ok := errors.AsType[*trainer.MemoryError](err); !ok || short.Bytes <= short.Free || short.Bytes < 100<<30 {
		t.Errorf("error %v, want that of too little memory", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(j.Config.Out), "*")); err != nil || left != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if _, err := os.Stat(j.Config.Out); err == nil {
		t.Error("the run has saved something")
	}
}
