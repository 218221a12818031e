//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAnInterruptKeepsTheLinesThatAreDone, and the same command goes on to what it would have come to alone.
func TestAnInterruptKeepsTheLinesThatAreDone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeModel(filepath.Join(dir, "m"), "qwen3_moe"); err != nil {
		t.Fatal(err)
	}
	const lines = 400
	var prompts bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&prompts, `{"prompt": "line %d", "temperature": 1, "max_new_tokens": %d}`+"\n", i, 1+i*7%40)
	}
	if err := os.WriteFile(filepath.Join(dir, "ask.jsonl"), prompts.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	command := func(out string) *exec.Cmd {
		c := exec.Command("tune", "generate", "--model", "m", "--prompts", "ask.jsonl", "--out", out)
		c.Dir = dir
		return c
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return b
	}
	first := command("out.jsonl")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Process.Kill() }) // in case the test fails before it ends
	if !eventually(t, func() bool { return bytes.Count(read("out.jsonl"), []byte("\n")) >= 3 }) {
		t.Fatal("no lines are written")
	}
	send(t, first, syscall.SIGINT)
	err := first.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("it ended with %v", err)
	}
	part := read("out.jsonl")
	if n := bytes.Count(part, []byte("\n")); n < 3 || n >= lines || !bytes.HasSuffix(part, []byte("\n")) {
		t.Fatalf("%d lines are written", n)
	}
	for _, out := range []string{"out.jsonl", "whole.jsonl"} {
		if b, err := command(out).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	}
	if got, want := read("out.jsonl"), read("whole.jsonl"); !bytes.HasPrefix(got, part) || !bytes.Equal(got, want) {
		t.Errorf("in two runs\n%s\nin one\n%s", got, want)
	}
}
