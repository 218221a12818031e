package main

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/bench"
)

// peaksVariable is the environment variable that, set to anything, has TestThePeakIsThePlan take every mode, in
// minutes.
const peaksVariable = "TUNE_TEST_PEAKS"

// TestThePeakIsThePlan takes steps of stories15M in every mode, and compares the memory of tune and its plugins
// together, pages that they share counted once, with what "tune plan" says of the same flags: 5% more or less.
// What reading the tokenizer and the data leaves behind is not in it.
func TestThePeakIsThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	model := testdata.Shared(t, "data", "models", "stories15M")
	const plain = "without kernels"
	for name, mode := range map[string]string{
		"as it is":             "",
		plain:                  plain,
		"checkpointing":        "--gradient-checkpointing",
		"adamw_8bit":           "--optim adamw_8bit",
		"adafactor":            "--optim adafactor",
		"lion":                 "--optim lion",
		"sgd":                  "--optim sgd",
		"muon":                 "--optim muon",
		"in the backward pass": "--update-in-backward --clip 0",
		"bf16":                 "--weights bf16",
		"all of them":          "--optim adamw_8bit --update-in-backward --weights bf16 --gradient-checkpointing",
		"lora":                 "--lora-rank 8",
		"lora, int8":           "--lora-rank 8 --base-int8",
		"lora, nf4":            "--lora-rank 8 --base-nf4",
		"dora":                 "--lora-rank 8 --lora-dora",
		"summed batches":       "--grad-accum 2",
	} {
		if everyday := name == "as it is" || name == "all of them" || name == "lora, nf4"; !everyday &&
			os.Getenv(peaksVariable) == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			kernels := "all"
			if mode == plain {
				kernels, mode = "none", ""
			}
			args := append([]string{"--model", model, "--seq", "256", "--batch", "8", "--threads", "2", "--max-kept", "0",
				"--plugin-dir", pluginDir(t), "--kernels", kernels}, strings.Fields(mode)...)
			var plan struct{ Bytes int64 }
			var run bench.Result
			for verb, into := range map[string]any{"plan --json --no-eval": &plan, "bench --json - --steps 1": &run} {
				out, err := tuneIn(t, t.TempDir(), append(strings.Fields(verb), args...)...).Output()
				if err == nil {
					err = json.Unmarshal(out, into)
				}
				if err != nil {
					t.Fatalf("%s: %v\n%s", verb, err, out)
				}
			}
			peak := run.Runs[0].PeakRSS
			more := float64(peak)/float64(plan.Bytes) - 1
			t.Logf("%d MiB planned, %d MiB at the peak: %+.1f%%", plan.Bytes>>20, peak>>20, 100*more)
			if !(math.Abs(more) <= 0.05) {
				t.Errorf("the peak is %+.1f%% of the plan", 100*more)
			}
		})
	}
}
