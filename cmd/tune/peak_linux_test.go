package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/testdata"
)

// peaksVariable is the environment variable that, set to anything, has TestThePeakIsThePlan take every mode, in
// minutes.
const peaksVariable = "TUNE_TEST_PEAKS"

// peakRun is a mode of training, by its flags.
type peakRun struct {
	flags    string
	kernels  string // all unless it is given
	everyday bool   // taken by each run of the tests
}

var peakRuns = map[string]peakRun{
	"as it is":             {everyday: true},
	"without kernels":      {kernels: "none"},
	"checkpointing":        {flags: "--gradient-checkpointing"},
	"adamw_8bit":           {flags: "--optim adamw_8bit"},
	"adafactor":            {flags: "--optim adafactor"},
	"lion":                 {flags: "--optim lion"},
	"sgd":                  {flags: "--optim sgd"},
	"muon":                 {flags: "--optim muon"},
	"in the backward pass": {flags: "--update-in-backward --clip 0"},
	"bf16":                 {flags: "--weights bf16"},
	"all of them": {flags: "--optim adamw_8bit --update-in-backward --weights bf16 --gradient-checkpointing",
		everyday: true},
	"the best kept":  {flags: "--load-best-at-end --save-every 0"},
	"lora":           {flags: "--lora-rank 8"},
	"lora, int8":     {flags: "--lora-rank 8 --base-int8"},
	"lora, nf4":      {flags: "--lora-rank 8 --base-nf4", everyday: true},
	"dora":           {flags: "--lora-rank 8 --lora-dora"},
	"pissa":          {flags: "--lora-rank 64 --lora-init pissa"},
	"pissa, nf4":     {flags: "--lora-rank 64 --lora-init pissa --base-nf4"},
	"summed batches": {flags: "--grad-accum 2"},
}

// TestThePeakIsThePlan trains stories15M in every mode, with evaluations and checkpoints, and compares the most memory
// that tune and its plugins have together, pages that they share counted once, with what "tune plan" says of the same
// flags: 5% more or less. Kernels' calls are not compared with the plain forward, whose memory no plan has.
func TestThePeakIsThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for name, run := range peakRuns {
		if !run.everyday && os.Getenv(peaksVariable) == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			args := run.args(t)
			var plan struct {
				Bytes  int64
				Memory json.RawMessage
			}
			out, err := tuneIn(t, t.TempDir(), append([]string{"plan", "--json"}, args...)...).Output()
			if err == nil {
				err = json.Unmarshal(out, &plan)
			}
			if err != nil {
				t.Fatalf("plan: %v\n%s", err, out)
			}
			peak := peakOf(t, append([]string{"train", "--out", filepath.Join(t.TempDir(), "out")}, args...)...)
			more := float64(peak)/float64(plan.Bytes) - 1
			t.Logf("%d MiB planned, %d MiB at the peak: %+.1f%%", plan.Bytes>>20, peak>>20, 100*more)
			if !(math.Abs(more) <= 0.05) {
				t.Errorf("the peak is %+.1f%% of the plan: %s", 100*more, plan.Memory)
			}
		})
	}
}

// args are the flags of the run but for the folder that it saves.
func (r peakRun) args(t *testing.T) []string {
	const data = "tinystories/tinystories_2MiB.text.jsonl"
	kernels := "all"
	if r.kernels != "" {
		kernels = r.kernels
	}
	args := []string{"--model", testdata.Shared(t, "data", "models", "stories15M"),
		"--data", testdata.Shared(t, "data", "datasets", data), "--eval-size", "8", "--eval-every", "2",
		"--seq", "256", "--batch", "8", "--steps", "3", "--threads", "2", "--max-kept", "0", "--check-every", "0",
		"--plugin-dir", pluginDir(t), "--kernels", kernels}
	if !strings.Contains(r.flags, "--save-every") {
		args = append(args, "--save-every", "2")
	}
	return append(args, strings.Fields(r.flags)...)
}

// peakOf runs the program and returns the most memory that it and its plugins were seen to have.
func peakOf(t *testing.T, args ...string) (peak int64) {
	cmd := tuneIn(t, t.TempDir(), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		peak = max(peak, memory.OfFamily(cmd.Process.Pid))
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			if peak == 0 {
				t.Skip("this system does not tell the proportional set size")
			}
			return peak
		case <-time.After(20 * time.Millisecond):
		}
	}
}
