// Package testdata finds the reference data that lives beside a checkout.
//
// Some tests compare with outputs of the models' own published code, with real
// tokenizers or with real models. Those files are large and not ours to ship, so a
// user's checkout does not have them: such tests skip, and say what is missing.
package testdata

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Shared returns the path of elem below the folder "shared" that lies beside the
// repository root, and skips the test when it is not there.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	p := filepath.Join(append([]string{filepath.Dir(Root(t)), "shared"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("reference data is absent (%v); it lies beside the repository, not in it", err)
	}
	return p
}

// Root returns the folder that holds go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}

// TrimPath returns "-trimpath" if $GOFLAGS has it, and otherwise nothing. A test that runs the go command with flags
// of its own passes it on: what one checkout has compiled without its path, others find in Go's cache.
func TrimPath() string {
	if slices.Contains(strings.Fields(os.Getenv("GOFLAGS")), "-trimpath") {
		return "-trimpath"
	}
	return ""
}

// Symlink is os.Symlink, but for an error where none is made: Wine says that it has made one.
func Symlink(to, at string) error {
	if err := os.Symlink(to, at); err != nil {
		return err
	}
	_, err := os.Lstat(at)
	return err
}
