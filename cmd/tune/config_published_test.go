package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// harmlessKeys are keys of no effect whose effect elsewhere is on no number of a run: how fast data is
// read, what is overwritten, what is printed, and what code may be loaded.
var harmlessKeys = []string{"trust_remote_code", "overwrite_cache", "preprocessing_num_workers",
	"dataloader_num_workers", "logging_steps", "plot_loss", "overwrite_output_dir", "save_only_model", "ddp_timeout",
	"flash_attn", "per_device_eval_batch_size"}

// TestPublishedFilesTrain: each file trains a small model, and every key in it does what it says or
// matters to no number.
func TestPublishedFilesTrain(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Shared(t, "data", "configs"), "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			args := []string{"--out", out, "--steps", "2", "--grad-accum", "2", "--seq", "1024", "--max-samples", "20"}
			if name == "kernels_sft" { // its data set is one of a hub
				args = append(args, "--data", "alpaca_en_demo")
			}
			job, notes, err := jobOf(t, published(t, name), smallBytes(t), args...)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(notes) {
				_, keys, _ := strings.Cut(strings.TrimSpace(line), "of no effect here: ")
				for key := range strings.SplitSeq(keys, ", ") {
					if key != "" && !slices.Contains(harmlessKeys, key) {
						t.Errorf("%s matters, and is said to be of no effect", key)
					}
				}
			}
			s, err := job.Run(t.Context())
			if err != nil || s.Steps != 2 || !(s.Last.Loss > 0) {
				t.Fatalf("%+v, %v", s, err)
			}
			if _, err := os.Stat(filepath.Join(out, job.Model.ConfigFile())); err != nil {
				t.Error(err)
			}
		})
	}
}
