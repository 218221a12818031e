package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
	"github.com/seed98097648/tune/trainer/progress"
)

// smallModel writes a model of one layer with a published tokenizer.
func smallModel(t *testing.T, tokenizer, config string) string {
	t.Helper()
	dir := t.TempDir()
	m, err := models.New([]byte(config), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	tensors, err := m.Named()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"config.json": []byte(config)}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		if files[name], err = os.ReadFile(testdata.Shared(t, "data", "tokenizers", tokenizer, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func smallQwen(t *testing.T) string {
	return smallModel(t, "qwen2_5", `{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 8,
		"intermediate_size": 16, "num_hidden_layers": 1,
		"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 4096, "tie_word_embeddings": true}`)
}

func smallLlama(t *testing.T) string {
	return smallModel(t, "llama3_2", `{"model_type": "llama", "vocab_size": 128256, "hidden_size": 8,
		"intermediate_size": 16, "num_hidden_layers": 1,
		"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 4096, "tie_word_embeddings": true}`)
}

// smallBytes is smallLlama with a token for each byte, which is soon read and computed with: for what no tokenizer
// changes.
func smallBytes(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := writeConfig(dir, []byte(`{"model_type": "llama", "vocab_size": 257, "hidden_size": 8,
		"intermediate_size": 16, "num_hidden_layers": 1,
		"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 4096,
		"tie_word_embeddings": true}`)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// jobOf makes the job that "tune train --config" would run, and the notes on the way to it.
func jobOf(t *testing.T, file, model string, args ...string) (job *trainer.Job, notes string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	a := &app{stdout: io.Discard, stderr: progress.New(io.Discard, &stderr)}
	c := &Command{Name: "train"}
	f := newTrainFlags(c)
	c.finish(nil)
	args = append([]string{"--config", path, "--model", model, "--dataset-dir",
		testdata.Shared(t, "data", "datasets", "llamafactory"), "--kernels", "none"}, args...)
	if err := c.Flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := f.file.apply(c, a.note); err != nil {
		return nil, stderr.String(), err
	}
	if err := f.check(c); err != nil {
		return nil, stderr.String(), err
	}
	if err := f.fitModel(c); err != nil {
		return nil, stderr.String(), err
	}
	job, _, err = f.load(t.Context(), autograd.Heap{})
	if err != nil {
		return nil, stderr.String(), err
	}
	t.Cleanup(func() { job.Close() })
	err = a.noteData(job.Config.Data, job.Corpus)
	return job, stderr.String(), err
}

func published(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(testdata.Shared(t, "data", "configs", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rowsOf counts the rows of data sets.
func rowsOf(t *testing.T, files ...string) (n int) {
	t.Helper()
	for _, name := range files {
		text, err := os.ReadFile(testdata.Shared(t, "data", "datasets", "llamafactory", name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".jsonl") {
			n += bytes.Count(bytes.TrimSpace(text), []byte("\n")) + 1
			continue
		}
		var all []any
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		n += len(all)
	}
	return n
}

// wanted is what a published file means, by the rules of the page that comes with it.
type wanted struct {
	rows, held, batch, accumulate int
	epochs, lr                    float64
}

func (w wanted) check(t *testing.T, job *trainer.Job) {
	t.Helper()
	held := 0
	if job.Eval != nil {
		held = job.Eval.Len()
	}
	if n := job.Train.Len(); n != w.rows-w.held || held != w.held {
		t.Errorf("%d rows and %d held out, want %d and %d", n, held, w.rows-w.held, w.held)
	}
	batches := math.Ceil(float64(w.rows-w.held) / float64(w.batch))
	steps := int(math.Ceil(batches/float64(w.accumulate)) * w.epochs)
	warm := int(math.Ceil(0.1 * float64(steps)))
	s := job.Schedule()
	if s.Steps != steps {
		t.Fatalf("%d steps, want %d", s.Steps, steps)
	}
	for n := range steps {
		want := w.lr * float64(n) / float64(warm)
		if n >= warm {
			want = w.lr * 0.5 * (1 + math.Cos(math.Pi*float64(n-warm)/float64(steps-warm)))
		}
		if got := s.At(n); !(math.Abs(got-want) <= 1e-15) {
			t.Fatalf("step %d has the rate %g, want %g", n, got, want)
		}
	}
	c := job.Config
	if c.WeightDecay != 0 || c.Clip != 1 || c.Seed != 42 || c.Beta1 != 0.9 || c.Beta2 != 0.999 || c.Epsilon != 1e-8 ||
		c.DecayAll {
		t.Errorf("weight decay %g, clipping %g, seed %d, betas %g and %g, epsilon %g", c.WeightDecay, c.Clip, c.Seed,
			c.Beta1, c.Beta2, c.Epsilon)
	}
}

// decayed returns the names of the parameters that decay, and of those that do not.
func decayed(job *trainer.Job) (with, without []string) {
	for _, p := range job.Model.Trainable() {
		if trainer.Undecayed(p) {
			without = append(without, p.Name)
		} else {
			with = append(with, p.Name)
		}
	}
	return with, without
}

// oneLayer are the matrices of a layer, and adapters those of its adapters.
var oneLayer = []string{"mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "self_attn.k_proj", "self_attn.o_proj",
	"self_attn.q_proj", "self_attn.v_proj"}

func checkAdapters(t *testing.T, job *trainer.Job) {
	t.Helper()
	var want []string
	for _, name := range oneLayer {
		want = append(want, "model.layers.0."+name+".lora_A.weight", "model.layers.0."+name+".lora_B.weight")
	}
	with, without := decayed(job)
	if slices.Sort(with); !slices.Equal(with, want) || without != nil {
		t.Errorf("these decay: %q\nthese do not: %q\nwant all adapters to", with, without)
	}
}

func has(t *testing.T, notes string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(notes, line) {
			t.Errorf("the notes lack %q:\n%s", line, notes)
		}
	}
}

func TestPublishedPretraining(t *testing.T) {
	job, notes, err := jobOf(t, published(t, "lora_pretrain"), smallLlama(t))
	if err != nil {
		t.Fatal(err)
	}
	wanted{rows: rowsOf(t, "c4_demo.jsonl"), batch: 1, accumulate: 8, epochs: 3, lr: 1e-4}.check(t, job)
	checkAdapters(t, job)
	if l := job.Config.LoRA; l.Rank != 8 || l.Alpha != 0 || l.PlusRatio != 0 ||
		job.Config.Checkpoints.SaveEvery != 500 || job.Config.Checkpoints.Keep != 0 {
		t.Errorf("LoRA %+v, checkpoints %+v", l, job.Config.Checkpoints)
	}
	if job.Config.Precision != models.BF16 {
		t.Errorf("precision %q, want that of bf16: true", job.Config.Precision)
	}
	has(t, notes, "run.yaml: stage pt: each text has a row of its own",
		"run.yaml: what it leaves out is as in LLaMA-Factory: weight_decay 0, seed 42, no_packing true, cut_long true, "+
			"eval_size 0, no_eval true, keep 0",
		"run.yaml: of no effect here: trust_remote_code, overwrite_cache, ")
}

func TestPublishedLoRAPlus(t *testing.T) {
	job, _, err := jobOf(t, published(t, "loraplus_sft"), smallLlama(t))
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, "identity.json", "alpaca_en_demo.json") // none has more than max_samples
	wanted{rows: rows, held: int(math.Ceil(0.1 * float64(rows))), batch: 1, accumulate: 8, epochs: 3, lr: 1e-4}.check(t,
		job)
	checkAdapters(t, job)
	if c := job.Config; c.LoRA.PlusRatio != 16 || c.Checkpoints.EvalEvery != 500 || c.Checkpoints.NoEval {
		t.Errorf("LoRA %+v, evaluations %+v", c.LoRA, c.Checkpoints)
	}
}

func TestPublishedKernels(t *testing.T) {
	file, model := published(t, "kernels_sft"), smallBytes(t)
	if _, _, err := jobOf(t, file, model); err == nil || !strings.Contains(err.Error(), "alpaca_en: hf_hub_url") ||
		!strings.Contains(err.Error(), "nothing is downloaded") {
		t.Errorf("a data set that is not there: %v", err)
	}
	job, notes, err := jobOf(t, file, model, "--data", "alpaca_en_demo")
	if err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(t, "alpaca_en_demo.json")
	wanted{rows: rows, held: int(math.Ceil(0.1 * float64(rows))), batch: 2, accumulate: 4, epochs: 3, lr: 5e-5}.check(t,
		job)
	checkAdapters(t, job)
	if c := job.Config; c.LoRA.Alpha != 16 || c.LoRA.Dropout != 0.05 || c.Checkpoints.EvalEvery != 250 ||
		c.Checkpoints.Keep != 2 {
		t.Errorf("LoRA %+v, checkpoints %+v", c.LoRA, c.Checkpoints)
	}
	has(t, notes, "run.yaml: kernel_name, use_kernels, use_liger_kernel: fused kernels are tune's own plugins, chosen "+
		"with the key kernels")
}

// Muon's steps are as large there as AdamW's. Without it, all is as the file says.
func TestPublishedFull(t *testing.T) {
	file, model := published(t, "full_muon_sft"), smallQwen(t)
	muon, _, err := jobOf(t, file, smallBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	if o := muon.Config.OptimConfig(); o.Kind != optim.Muon || !o.MatchRMS || o.Momentum != 0.95 {
		t.Errorf("use_muon is %+v", o)
	}
	job, notes, err := jobOf(t, strings.Replace(file, "use_muon: true", "use_muon: false", 1), model)
	if err != nil {
		t.Fatal(err)
	}
	wanted{rows: rowsOf(t, "identity.json", "alpaca_en_demo.json"), batch: 1, accumulate: 8, epochs: 3,
		lr: 1e-5}.check(t, job)
	want := []string{"model.embed_tokens.weight"}
	for _, name := range oneLayer {
		want = append(want, "model.layers.0."+name+".weight")
	}
	with, without := decayed(job)
	if slices.Sort(with); !slices.Equal(with, want) {
		t.Errorf("these decay: %q, want %q", with, want)
	}
	for _, name := range without {
		if !strings.HasSuffix(name, ".bias") && !strings.HasSuffix(name, "norm.weight") {
			t.Errorf("%s does not decay", name)
		}
	}
	if len(without) != 3+3 { // biases of q, k and v; two norms and the last
		t.Errorf("these do not decay: %q", without)
	}
	if strings.Contains(notes, "report_to") {
		t.Errorf("a note on report_to: none: %s", notes)
	}
}

func TestPublishedDPO(t *testing.T) {
	job, notes, err := jobOf(t, published(t, "lora_dpo"), smallLlama(t))
	if err != nil {
		t.Fatal(err)
	}
	c := job.Config
	if p := c.Preference; p.Stage != "dpo" || p.Method() != "sigmoid" || p.Beta != 0.1 || c.LoRA.Rank != 8 ||
		c.Batch != 1 ||
		c.Accumulate != 8 || job.Corpus.Report.Examples != 298 || job.Train.Len() != 298 || !c.Data.NoPacking {
		t.Errorf("%+v, %+v", c, job.Corpus.Report)
	}
	// An answer with its prompt has up to cutoff_len tokens, and two share a row, which is no longer than need be.
	if c.Seq > 2*2048 || job.Corpus.Report.Truncated != 5 || job.Corpus.Report.Empty != 2 {
		t.Errorf("rows of %d tokens, %d cut", c.Seq, job.Corpus.Report.Truncated)
	}
	if !strings.Contains(notes, "cutoff_len: two answers share a row, which has twice as many tokens") {
		t.Errorf("notes %s", notes)
	}
	for _, line := range strings.Split(notes, "\n") {
		if strings.Contains(line, "of no effect") && (strings.Contains(line, "pref") || strings.Contains(line, "stage")) {
			t.Errorf("note %s", line)
		}
	}
	_, _, err = jobOf(t, strings.Replace(published(t, "lora_dpo"), "stage: dpo", "stage: rm", 1), smallBytes(t))
	if err == nil || !strings.Contains(flagged(err.Error()), `--stage is "rm"; it takes sft, pt, dpo`) {
		t.Errorf("a stage that there is not: %v", err)
	}
}

// A model with fewer positions than cutoff_len has shorter rows, and a line says so.
func TestCutoffIsWhatTheModelCanTake(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m")
	if err := writeModel(model, "llama"); err != nil {
		t.Fatal(err)
	}
	job, notes, err := jobOf(t, published(t, "lora_pretrain"), model)
	if err != nil {
		t.Fatal(err)
	}
	if job.Config.Seq != 64 || job.Train.Len() != rowsOf(t, "c4_demo.jsonl") {
		t.Errorf("%d rows of %d tokens", job.Train.Len(), job.Config.Seq)
	}
	has(t, notes, "cutoff_len: the model has 64 positions", "cut at the end to fit in a row")
}
