package trainer_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// TestNoRightKernelIsTakenOff trains every reference model with the project's plugins,
// compared in each step, in rows of several lengths, and with its weights frozen.
func TestNoRightKernelIsTakenOff(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*", "config.json"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d models, %v", len(folders), err)
	}
	mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
	for _, config := range append(folders, filepath.Join(testdata.Shared(t, "data", "models"), "stories260K", "config.json")) {
		dir := filepath.Dir(config)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for name, o := range map[string]models.LoadOptions{"full": {}, "lora": {LoRA: lora.Config{Rank: 4, Alpha: 8, Targets: []string{"all-linear"}}}} {
				m, err := models.LoadWith(dir, mem, o)
				if err != nil {
					t.Fatal(err)
				}
				c := trainer.Default()
				c.Steps, c.Batch, c.Seq, c.Kernels, c.CheckEvery = 2, 3, min(33, m.Config.MaxPositionEmbeddings), "all", 1
				rows := someRows(t, m.Vocab(), c.Seq)
				j := &trainer.Job{Config: c, Model: m, Memory: mem, Registry: reg, Train: rows[2:], Eval: rows[:2]}
				sum, err := j.Run(t.Context())
				m.Free()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if len(sum.Wrong) > 0 || sum.Checked.Calls == 0 {
					t.Errorf("%s: %v, after %v", name, sum.Wrong, sum.Checked)
				}
			}
		})
	}
}

// someRows are of packed documents, with padding.
func someRows(t *testing.T, vocab, seq int) data.Slice {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	var docs [][]int32
	for range 40 {
		doc := make([]int32, 3+rng.IntN(2*seq))
		for i := range doc {
			doc[i] = int32(rng.IntN(vocab))
		}
		docs = append(docs, doc)
	}
	rows, err := data.Pack(docs, seq, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestAWrongPluginIsTakenOffAndNamed runs a real plugin, which its check before use has
// found right.
func TestAWrongPluginIsTakenOffAndNamed(t *testing.T) {
	dir := t.TempDir()
	plugintest.Compile(t, dir, "./trainer/testdata/shortrope")
	reg, err := core.ScanAllKernels(t.Context(), []string{dir}, transport.Options{CacheDir: "off"}.Open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	mem := plugintest.Memory(t)
	size := func(c *trainer.Config) { c.Batch, c.Seq = 4, 24 }
	want, _ := finish(t, checkedJob(t, mem, "none", size))
	j := checkedJob(t, mem, "shortrope", size)
	j.Registry = reg
	j.Config.Out = filepath.Join(t.TempDir(), "out")
	got, sum := finish(t, j)
	same(t, got, want)
	if len(sum.Wrong) != 1 || sum.Wrong[0].Site != "layers.0.self_attn.rope" {
		t.Fatalf("taken off: %v", sum.Wrong)
	}
	for _, file := range []string{"run.jsonl", "training_log.jsonl"} {
		text, err := os.ReadFile(filepath.Join(j.Config.Out, file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "kernel shortrope: rope forward at layers.0.self_attn.rope: q_out, element"); file == "run.jsonl" && n != 1 {
			t.Errorf("the journal names it %d times:\n%s", n, text)
		}
		if n := strings.Count(string(text), "eval_loss"); n != 3 {
			t.Errorf("%s has %d evaluations, want 3", file, n)
		}
	}
}
