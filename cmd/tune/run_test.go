package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/models"
)

// wantModel fails unless a folder has a model that can be loaded.
func wantModel(t *testing.T, dir string) {
	t.Helper()
	m, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{})
	if err != nil {
		t.Errorf("there should be a model: %v", err)
		return
	}
	m.Free()
}

// stderrOf is what a command of tuneIn has written to standard error.
func stderrOf(cmd *exec.Cmd) string { return cmd.Stderr.(*bytes.Buffer).String() }

func pid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) }

// entries returns the names in dir, without the model, the text and the cache.
func entries(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		if n := e.Name(); n != "m" && n != "text.txt" && n != "cache" {
			names = append(names, n)
		}
	}
	return strings.Join(names, " ")
}

// tuneIn returns a command that runs in dir. What it writes to standard error is shown if
// the test fails.
func tuneIn(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("tune", args...)
	cmd.Dir = dir
	cmd.Env = environment(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\n%s", cmd, stderr.Bytes())
		}
	})
	return cmd
}
