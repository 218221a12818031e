package main

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// TestAPublishedModelLearnsInEveryMode trains one that has read stories only for a few steps on plays, with each
// optimizer, kind of weights and base: it is much better afterwards, and what only stores things differently ends
// where AdamW in float32 does. scripts/curves has a larger model and 300 steps.
func TestAPublishedModelLearnsInEveryMode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	model := testdata.Shared(t, "data", "models", "stories260K")
	dir, ends := t.TempDir(), map[string]float64{}
	text := written(t, filepath.Join(dir, "text.txt"), plays(t)[:30_000])
	for _, m := range []struct {
		name  string
		like  string  // a mode above
		most  float64 // the relative distance of the last loss from that one's
		flags []string
	}{
		{"adamw", "", 0, []string{"--lr", "1e-3"}},
		{"adamw_8bit", "adamw", 0.001, []string{"--lr", "1e-3", "--optim", "adamw_8bit"}},
		{"bf16", "adamw", 0.001, []string{"--lr", "1e-3", "--weights", "bf16"}},
		{"adafactor", "", 0, []string{"--lr", "1e-3", "--optim", "adafactor"}},
		{"lion", "", 0, []string{"--lr", "1e-4", "--optim", "lion"}},
		{"sgd", "", 0, []string{"--lr", "1e-1", "--optim", "sgd"}},
		{"muon", "", 0, []string{"--lr", "1e-3", "--optim", "muon", "--muon-match-rms"}},
		{"lora", "", 0, []string{"--lr", "5e-3", "--lora-rank", "16"}},
		{"lora-int8", "lora", 0.005, []string{"--lr", "5e-3", "--lora-rank", "16", "--base-int8"}},
		{"pissa-nf4", "", 0, []string{"--lr", "1e-3", "--lora-rank", "16", "--base-nf4", "--lora-init", "pissa"}},
	} {
		args := append([]string{"--kernels", "none", "--model", model, "--data", text, "--eval-size", "4",
			"--steps", "15", "--batch", "4", "--seq", "64", "--out", m.name}, m.flags...)
		cmd := exec.Command("tune", args...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", m.name, err, output)
		}
		before, after := evaluations(t, filepath.Join(dir, m.name))
		ends[m.name] = after
		t.Logf("%s: %.4f -> %.4f", m.name, before, after)
		if !(after < before-0.5) {
			t.Errorf("%s: the held-out loss goes from %.4f to %.4f", m.name, before, after)
		}
		if want := ends[m.like]; m.like != "" && !(math.Abs(after/want-1) <= m.most) {
			t.Errorf("%s: the held-out loss ends at %.4f, that of %s at %.4f", m.name, after, m.like, want)
		}
	}
}
