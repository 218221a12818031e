package main

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/memory"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// peaksVariable is the environment variable that, set to anything, has TestThePeakIsThePlan take every mode, in
// minutes.
const peaksVariable = "TUNE_TEST_PEAKS"

// peakRun is a mode of training, by its flags.
type peakRun struct {
	flags    string
	data     string // among the shared datasets; tinystories unless it is given
	experts  bool   // the model is a mixture of experts instead of stories15M
	half     bool   // its files are in bfloat16
	kernels  string // all unless it is given
	check    bool   // their calls are compared with the plain forward
	everyday bool   // taken by each run of the tests
}

var peakRuns = map[string]peakRun{
	"as it is":             {},
	"without kernels":      {kernels: "none"},
	"checkpointing":        {flags: "--gradient-checkpointing"},
	"adamw_8bit":           {flags: "--optim adamw_8bit"},
	"adafactor":            {flags: "--optim adafactor"},
	"lion":                 {flags: "--optim lion"},
	"sgd":                  {flags: "--optim sgd"},
	"muon":                 {flags: "--optim muon"},
	"in the backward pass": {flags: "--update-in-backward --clip 0"},
	"bf16":                 {flags: "--weights bf16"},
	"files in bf16":        {half: true, everyday: true},
	"all of them":          {flags: frugal, everyday: true},
	"the best kept":        {flags: "--load-best-at-end --save-every 0"},
	"lora":                 {flags: "--lora-rank 8"},
	"lora, int8":           {flags: "--lora-rank 8 --base-int8"},
	"lora, nf4":            {flags: "--lora-rank 8 --base-nf4", everyday: true},
	"dora":                 {flags: "--lora-rank 8 --lora-dora"},
	"pissa":                {flags: "--lora-rank 64 --lora-init pissa"},
	"pissa, nf4":           {flags: "--lora-rank 64 --lora-init pissa --base-nf4"},
	"summed batches":       {flags: "--grad-accum 2"},

	"compared":              {check: true},
	"compared, auto":        {check: true, kernels: "auto"},
	"compared, summed":      {check: true, flags: "--grad-accum 2"},
	"compared, experts":     {check: true, experts: true, everyday: true},
	"compared, lora":        {check: true, flags: "--lora-rank 8"},
	"compared, all of them": {check: true, flags: frugal},

	"experts":                  {experts: true},
	"experts, without kernels": {experts: true, kernels: "none"},
	"experts, checkpointing":   {experts: true, flags: "--gradient-checkpointing"},
	"experts, frugal":          {experts: true, flags: frugal},
	"experts, lora":            {experts: true, flags: "--lora-rank 8"},
	"experts, lora, nf4":       {experts: true, flags: "--lora-rank 8 --base-nf4"},

	"dpo":                  {data: dpoData, flags: "--stage dpo"},
	"dpo, without kernels": {data: dpoData, flags: "--stage dpo", kernels: "none"},
	"dpo, no evaluation":   {data: dpoData, flags: "--stage dpo --no-eval", everyday: true},
	"dpo, all of them":     {data: dpoData, flags: "--stage dpo " + frugal},
	"dpo, summed batches":  {data: dpoData, flags: "--stage dpo --grad-accum 2"},
	"dpo, experts":         {data: dpoData, flags: "--stage dpo", experts: true},
	"orpo":                 {data: dpoData, flags: "--stage orpo"},
	"orpo, no evaluation":  {data: dpoData, flags: "--stage orpo --no-eval"},
	"simpo":                {data: dpoData, flags: "--stage simpo"},
	"kto":                  {data: ktoData, flags: "--stage kto"},

	"dpo, lora":      {data: dpoData, flags: "--stage dpo --lora-rank 8"},
	"dpo, lora, nf4": {data: dpoData, flags: "--stage dpo --lora-rank 8 --base-nf4 --no-eval"},
	"orpo, lora":     {data: dpoData, flags: "--stage orpo --lora-rank 8"},
	"kto, lora":      {data: ktoData, flags: "--stage kto --lora-rank 8"},
}

// Data and flags of several modes.
const (
	dpoData = "llamafactory/dpo_en_demo.json"
	ktoData = "llamafactory/kto_en_demo.json"
	frugal  = "--optim adamw_8bit --update-in-backward --weights bf16 --gradient-checkpointing"
)

// expertsConfig is a mixture of experts about as large as stories15M.
const expertsConfig = `{"model_type": "qwen3_moe", "vocab_size": 32000, "hidden_size": 288, "intermediate_size": 768,
	"num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 6, "head_dim": 48, "num_experts": 8,
	"num_experts_per_tok": 2, "moe_intermediate_size": 192, "norm_topk_prob": true, "tie_word_embeddings": true,
	"max_position_embeddings": 256, "initializer_range": 0.02}`

// TestThePeakIsThePlan trains small models in every mode, with evaluations and checkpoints, and compares the most
// memory that tune and its plugins have together, pages that they share counted once, with what "tune plan" says of
// the same flags: 5% more or less. On a busy machine the garbage collector is late, and so may the looks be: one of
// three runs must be as it was planned.
func TestThePeakIsThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Setenv("GOGC", "") // as users have it
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
			for range 3 {
				peak := peakOf(t, filepath.Join(t.TempDir(), "out"), args...)
				more := float64(peak)/float64(plan.Bytes) - 1
				t.Logf("%d MiB planned, %d MiB at the peak: %+.1f%%", plan.Bytes>>20, peak>>20, 100*more)
				if math.Abs(more) <= 0.05 {
					return
				}
			}
			t.Errorf("no run had what was planned: %s", plan.Memory)
		})
	}
}

// args are the flags of the run but for the folder that it saves.
func (r peakRun) args(t *testing.T) []string {
	model := testdata.Shared(t, "data", "models", "stories15M")
	if r.experts {
		model = expertsIn(t, model)
	}
	if r.half {
		model = halfIn(t, model)
	}
	data := cmp.Or(r.data, "tinystories/tinystories_2MiB.text.jsonl")
	args := []string{"--model", model, "--data", testdata.Shared(t, "data", "datasets", data),
		"--eval-size", "8", "--seq", "128", "--batch", "8", "--steps", "2", "--threads", "2", "--max-kept", "0",
		"--plugin-dir", pluginDir(t), "--kernels", cmp.Or(r.kernels, "all")}
	samples := "200" // enough for the steps, and soon read
	if r.data != "" {
		samples = "40" // a reference is asked about all of them
		args = append(args, "--template", "default")
	}
	args = append(args, "--max-samples", samples)
	if !r.check {
		args = append(args, "--check-every", "0")
	}
	if !strings.Contains(r.flags, "--no-eval") {
		args = append(args, "--eval-every", "1")
	}
	if !strings.Contains(r.flags, "--save-every") {
		args = append(args, "--save-every", "1")
	}
	return append(args, strings.Fields(r.flags)...)
}

// expertsIn makes a folder with a mixture of experts that has the tokenizer of another folder.
func expertsIn(t *testing.T, tokenizer string) string {
	dir := t.TempDir()
	if err := writeConfig(dir, []byte(expertsConfig)); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, tokenizer, dir, "tokenizer.json", "tokenizer_config.json")
	return dir
}

// halfIn makes a folder with a model whose weights are stored in bfloat16, as most are.
func halfIn(t *testing.T, model string) string {
	dir := t.TempDir()
	copyFiles(t, model, dir, "config.json", "tokenizer.json", "tokenizer_config.json")
	m, err := models.Load(model, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := m.Named()
	for i := range tensors {
		tensors[i].As = core.BFloat16
	}
	if err == nil {
		err = checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFiles(t *testing.T, from, to string, names ...string) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// look is how long peakOf waits between two looks at least. Each has the system walk all pages of all processes, some
// milliseconds; as they take what the run has less of, it waits lookShare times as long as the last one has taken.
// What a step takes most of, it has for longer: it takes a second, or more where a look takes more.
const (
	look      = 50 * time.Millisecond
	lookShare = 10
)

// peakOf trains and returns the most memory that the program and its plugins were seen to have until the model was
// saved in a folder. Then they end one after the other, and pages that one of them has given up count for those
// that are still to be looked at, as well.
func peakOf(t *testing.T, out string, args ...string) (peak int64) {
	cmd := tuneIn(t, t.TempDir(), append([]string{"train", "--out", out}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		start := time.Now()
		if now := memory.OfFamily(cmd.Process.Pid); !saved(out) {
			peak = max(peak, now)
		}
		wait := max(look, lookShare*time.Since(start))
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			if peak == 0 {
				t.Skip("this system does not tell the proportional set size")
			}
			return peak
		case <-time.After(wait):
		}
	}
}

// saved reports whether a run has saved its model in a folder, which it does last.
func saved(out string) bool {
	configs, _ := filepath.Glob(filepath.Join(out, "*config.json")) // of a model or an adapter
	return configs != nil
}
