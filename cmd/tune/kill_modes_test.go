//go:build unix

package main

import (
	"sync"
	"testing"
)

// TestEveryModeGoesOnAfterAKill kills runs of each optimizer, each way to keep weights and each kind of adapter,
// and resumes them: each comes to the bits of a run that was not killed. That no two modes come to the same bits shows
// that each was at work.
func TestEveryModeGoesOnAfterAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	attention := "--lora-target=q_proj,k_proj,v_proj,o_proj" // DoRA is not for experts
	modes := []struct {
		name    string
		adapter bool
		flags   []string
	}{
		{"adamw", false, nil},
		{"adamw_8bit", false, []string{"--optim", "adamw_8bit"}},
		{"adafactor", false, []string{"--optim", "adafactor"}},
		{"lion", false, []string{"--optim", "lion"}},
		{"sgd", false, []string{"--optim", "sgd"}},
		{"muon", false, []string{"--optim", "muon"}},
		{"in the backward pass", false, []string{"--update-in-backward", "--grad-accum", "1"}},
		{"bf16 weights", false, []string{"--weights", "bf16"}},
		{"bf16 weights, 8 bits, in the backward pass", false,
			[]string{"--weights", "bf16", "--optim", "adamw_8bit", "--update-in-backward", "--grad-accum", "1"}},
		{"LoRA", true, nil},
		{"LoRA, int8", true, []string{"--base-int8"}},
		{"LoRA, nf4", true, []string{"--base-nf4"}},
		{"LoRA, nf4, 8 bits", true, // of a rank with which there are moments large enough
			[]string{"--base-nf4", "--optim", "adamw_8bit", "--lora-rank", "64"}},
		{"LoRA, in the backward pass", true, []string{"--update-in-backward", "--grad-accum", "1"}},
		{"rsLoRA, LoRA+", true, []string{"--lora-rslora", "--loraplus-lr-ratio", "16"}},
		{"PiSSA", true, []string{"--lora-init", "pissa"}},
		{"PiSSA, nf4", true, []string{"--lora-init", "pissa", "--base-nf4", "--lora-dropout", "0.1"}},
		{"DoRA", true, []string{"--lora-dora", attention}},
		{"DoRA, nf4", true, []string{"--lora-dora", "--base-nf4", attention}},
	}
	var mu sync.Mutex
	seen := map[string]string{}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			files, flags := wholeFiles, append([]string{"--save-every", "2"}, m.flags...)
			if m.adapter {
				files, flags = adapterFiles, append([]string{"--lora-rank", "4"}, flags...)
			}
			weights := string(killed(t, 10, 1, files, flags...))
			mu.Lock()
			defer mu.Unlock()
			if other, same := seen[weights]; same {
				t.Errorf("it comes to the bits of %s", other)
			}
			seen[weights] = m.name
		})
	}
}
