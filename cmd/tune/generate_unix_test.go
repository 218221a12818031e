//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInterruptEndsAConversation while it waits for the next question: the exit code is
// that of an interrupt, and nothing is reported as an error.
func TestInterruptEndsAConversation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeModel(filepath.Join(dir, "m"), "llama"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tune", "generate", "--model", "m", "--chat", "--template", "default", "--max-new-tokens", "2")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var notes strings.Builder
	cmd.Stderr = &notes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() // in case the test fails before it ends
	if _, err := io.WriteString(in, "hi\n"); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	send(t, cmd, os.Interrupt)
	if _, err := io.ReadAll(answers); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != exitInterrupted || strings.Contains(notes.String(), "saved") {
		t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), notes.String())
	}
}
