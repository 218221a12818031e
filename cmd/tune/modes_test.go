package main

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// TestAPublishedModelLearnsInEveryMode trains it for a few steps with each optimizer, kind of weights and base: it is
// better afterwards, and what only stores things differently ends near where AdamW in float32 does. scripts/curves is
// the same for 300 steps.
func TestAPublishedModelLearnsInEveryMode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	model := testdata.Shared(t, "data", "models", "stories15M")
	text := testdata.Shared(t, "data", "datasets", "tinystories", "tinystories_2MiB.txt")
	dir, ends := t.TempDir(), map[string]float64{}
	for _, m := range []struct {
		name  string
		like  string  // a mode above
		most  float64 // the relative distance of the last loss from that one's
		flags []string
	}{
		{"adamw", "", 0, []string{"--lr", "1e-5"}},
		{"adamw_8bit", "adamw", 0.005, []string{"--lr", "1e-5", "--optim", "adamw_8bit"}},
		{"bf16", "adamw", 0.01, []string{"--lr", "1e-5", "--weights", "bf16"}},
		{"adafactor", "", 0, []string{"--lr", "1e-5", "--optim", "adafactor"}},
		{"lion", "", 0, []string{"--lr", "1e-6", "--optim", "lion"}},
		{"sgd", "", 0, []string{"--lr", "1e-3", "--optim", "sgd"}},
		{"muon", "", 0, []string{"--lr", "1e-5", "--optim", "muon", "--muon-match-rms"}},
		{"lora", "", 0, []string{"--lr", "2e-4", "--lora-rank", "16"}},
		{"lora-int8", "lora", 0.005, []string{"--lr", "2e-4", "--lora-rank", "16", "--base-int8"}},
		{"pissa-nf4", "", 0, []string{"--lr", "3e-5", "--lora-rank", "16", "--base-nf4", "--lora-init", "pissa"}},
	} {
		args := append([]string{"--kernels", "none", "--model", model, "--data", text, "--max-samples", "50",
			"--eval-size", "4", "--steps", "8", "--batch", "2", "--seq", "64", "--out", m.name}, m.flags...)
		cmd := exec.Command("tune", args...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", m.name, err, output)
		}
		before, after := evaluations(t, filepath.Join(dir, m.name))
		ends[m.name] = after
		t.Logf("%s: %.4f -> %.4f", m.name, before, after)
		if !(after < before) {
			t.Errorf("%s: the held-out loss goes from %.4f to %.4f", m.name, before, after)
		}
		if want := ends[m.like]; m.like != "" && !(math.Abs(after/want-1) <= m.most) {
			t.Errorf("%s: the held-out loss ends at %.4f, that of %s at %.4f", m.name, after, m.like, want)
		}
	}
}
