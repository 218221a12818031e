package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// logLine is a line of training_log.jsonl, of any kind.
type logLine struct {
	Step *int     `json:"step"`
	Loss *float64 `json:"loss"`
	Eval *float64 `json:"eval_loss"`
}

// evaluations returns the first and the last held-out loss of a saved folder's log.
func evaluations(t *testing.T, dir string) (first, last float64) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "training_log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(raw)) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Eval == nil {
			continue
		}
		if n++; n == 1 {
			first = *l.Eval
		}
		last = *l.Eval
	}
	if n < 2 {
		t.Fatalf("%s: %d evaluations, want one before and one after", dir, n)
	}
	return first, last
}

// plays returns a published text.
func plays(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(testdata.Shared(t, "data", "datasets", "text", "tinyshakespeare.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// written returns a file with these bytes.
func written(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestARealModelLearnsAndLoadsAgain trains a published model on a published text, and
// evaluates the saved folder again.
func TestARealModelLearnsAndLoadsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	model := testdata.Shared(t, "data", "models", "stories260K")
	dir, text := t.TempDir(), plays(t)
	train := written(t, filepath.Join(dir, "train.txt"), text[:60_000])
	held := written(t, filepath.Join(dir, "held.txt"), text[len(text)-8_000:])
	run := func(out, model, kernels, steps, lr string) (before, after float64) {
		t.Helper()
		cmd := exec.Command("tune", "--kernels", kernels, "--plugin-dir", pluginDir(t), "--model", model, "--data", train,
			"--eval-data", held,
			"--steps", steps, "--batch", "4", "--seq", "128", "--lr", lr, "--weight-decay", "0", "--out", out)
		cmd.Dir = dir
		cmd.Env = environment(t)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, bytes.TrimSpace(output))
		}
		return evaluations(t, filepath.Join(dir, out))
	}
	before, after := run("first", model, "auto", "15", "1e-3")
	if !(after < before-0.05) {
		t.Errorf("held-out loss went from %g to %g, want it to fall", before, after)
	}
	// A busy machine may make auto choose others, whose last bits differ.
	again, _ := run("second", filepath.Join(dir, "first"), "from:first", "1", "1e-9")
	if again != after {
		t.Errorf("the saved model has a held-out loss of %v, want %v as when it was saved", again, after)
	}
}
