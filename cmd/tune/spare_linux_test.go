package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// TestFilesAreSpareBeforeTheFirstStep, and not found to be missing when the model is to be saved.
func TestFilesAreSpareBeforeTheFirstStep(t *testing.T) {
	const variable = "TUNE_TEST_FILES"
	if os.Getenv(variable) == "" {
		if err := checkSpareFiles(); err != nil {
			t.Error(err)
		}
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), variable+"=few")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := sandbox.LimitFiles(spareFiles); err != nil {
		t.Skip(err)
	}
	if err := checkSpareFiles(); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("error %v", err)
	}
}
