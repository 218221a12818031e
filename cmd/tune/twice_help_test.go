//go:build unix

package main

import (
	"bytes"
	"os/exec"
	"strconv"
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
