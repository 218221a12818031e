package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
)

// TestAFlippedBitInASavedModelIsSeen flips one in each file of a saved model, and of an
// adapter, that loading it needs, for each command that loads one.
func TestAFlippedBitInASavedModelIsSeen(t *testing.T) {
	t.Parallel()
	dir := modelAndText(t, "llama")
	train := []string{"--kernels", "none", "--data", "text.txt", "--seq", "16", "--steps", "1"}
	for _, more := range [][]string{{"--model", "m", "--out", "full"},
		{"--model", "m", "--out", "adapted", "--lora-rank", "2"}} {
		if err := tuneIn(t, dir, append(train, more...)...).Run(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		files []string
		flags []string
	}{
		{[]string{"full/" + checkpoint.SingleFile, "full/config.json", "full/tokenizer.json", "full/" +
			checkpoint.SumsFile}, []string{"--model", "full"}},
		{[]string{"adapted/" + lora.WeightsFile, "adapted/" + lora.ConfigFile},
			[]string{"--model", "m", "--adapter", "adapted"}},
	} {
		verbs := [][]string{{"eval", "--data", "text.txt", "--seq", "16", "--kernels", "none"},
			{"generate", "--prompt", "a", "--max-tokens", "1", "--kernels", "none"}, append(train, "--out", "next")}
		if len(tt.flags) > 2 {
			verbs = append(verbs, []string{"merge", "--out", "merged"})
		}
		for _, verb := range verbs {
			args := append(verb[:len(verb):len(verb)], tt.flags...)
			for _, file := range tt.files {
				path := filepath.Join(dir, file)
				whole, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				harmed := append([]byte(nil), whole...)
				harmed[len(harmed)*2/3] ^= 1
				if err := os.WriteFile(path, harmed, 0o666); err != nil {
					t.Fatal(err)
				}
				cmd := tuneIn(t, dir, args...)
				err = cmd.Run()
				if text := stderrOf(cmd); err == nil || !strings.Contains(text, file) ||
					!strings.Contains(text, checkpoint.ErrDamaged.Error()) {
					t.Errorf("%v with a flipped bit in %s: %v\n%s", args, file, err, text)
				}
				if err := os.WriteFile(path, whole, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := entries(t, dir); got != "adapted full" {
		t.Errorf("the commands have left %q", got)
	}
}
