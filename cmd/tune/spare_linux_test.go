package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/seed98097648/tune/internal/os/sandbox"
)

// TestFilesAreSpareBeforeTheFirstStep, and not found to be missing when the model is to be saved.
func TestFilesAreSpareBeforeTheFirstStep(t *testing.T) {
	if few := sandbox.Again(t); few != nil {
		if err := errors.Join(checkSpareFiles(), few.Run()); err != nil {
			t.Error(err)
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

// TestAnErrorForWantOfFilesSaysWhatToRaise, once, and nothing else that would not help.
func TestAnErrorForWantOfFilesSaysWhatToRaise(t *testing.T) {
	cause := &fs.PathError{Op: "open", Path: "config.json", Err: syscall.EMFILE}
	const remedy = "raise the limit of open files (ulimit -n)"
	missing := &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}
	for want, err := range map[string]error{
		"too many open files; " + remedy + "\n":         fmt.Errorf("models: %w", cause),
		"files; " + remedy + ", or use fewer plugins\n": fmt.Errorf("%w; %s, or use fewer plugins", cause, remedy),
		"no such file or directory\n":                   missing,
	} {
		var out bytes.Buffer
		if (&app{stderr: &out}).report(err); !strings.HasSuffix(out.String(), want) {
			t.Errorf("%q, want the end %q", &out, want)
		}
	}
}
