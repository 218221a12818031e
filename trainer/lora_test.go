package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/optim"
)

// tinyFolder writes the tiny model with matrices in bfloat16.
func tinyFolder(t *testing.T) string { return folderOf(t, tiny) }

// folderOf is one of the model that a configuration describes.
func folderOf(t *testing.T, config string) string {
	t.Helper()
	m, err := models.New([]byte(config), autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	tensors, err := m.Named()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range tensors {
		if len(n.Tensor.Shape) > 1 {
			tensors[i].Tensor = core.NewTensor(core.BFloat16, n.Tensor.Shape...)
			tensors[i].Tensor.Store(n.Tensor.Float32s(), 0)
		}
	}
	dir := t.TempDir()
	if err := checkpoint.WriteFileAtomic(filepath.Join(dir, "config.json"), m.RawConfig, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newLoRARun is newRun for adapters on the tiny model.
func newLoRARun(t *testing.T, mem core.Memory, dir string, c lora.Config, patch func(*models.Model), change ...func(*trainer.EngineConfig)) *run {
	t.Helper()
	m, err := models.LoadWith(dir, mem, models.LoadOptions{LoRA: c, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if patch != nil {
		patch(m)
	}
	cfg := trainer.EngineConfig{Batch: 3, Seq: 17, Clip: 1, Optim: optim.DefaultConfig(), Seed: 7}
	for _, f := range change {
		f(&cfg)
	}
	e, err := trainer.NewEngine(m, mem, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	loader, err := data.NewLoader(rows(t, 17), 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, model: m, engine: e, loader: loader}
}

// trained returns the adapters.
func (r *run) trained() [][]float32 {
	var out [][]float32
	for _, p := range r.model.Trainable() {
		out = append(out, slices.Clone(p.Tensor.Float32s()))
	}
	return out
}

// TestLoRALearnsTheSameWithPlugins: in other processes, on a bfloat16 model, without copies.
func TestLoRALearnsTheSameWithPlugins(t *testing.T) {
	dir := tinyFolder(t)
	for name, c := range map[string]lora.Config{
		"attention":  {Rank: 4, Targets: []string{"q_proj", "v_proj", "o_proj"}}, // the experts' kernel has frozen weights
		"all linear": {Rank: 4, Dropout: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			mem, reg := plugintest.Memory(t), plugintest.Scan(t, transport.Options{})
			plain := newLoRARun(t, mem, dir, c, nil).steps(8)
			fused := newLoRARun(t, mem, dir, c, func(m *models.Model) {
				if _, err := core.ApplyDefaultKernels(t.Context(), m, reg, "all"); err != nil {
					t.Fatal(err)
				}
			}).steps(8)
			for i, want := range plain.losses {
				if got := fused.losses[i]; !(math.Abs(got-want) <= 1e-5) {
					t.Errorf("step %d: loss %g with kernels, %g without", i+1, got, want)
				}
			}
			for _, k := range reg.Kernels() {
				if h := k.(core.HealthReporter).Health(); h.Copies+h.Fallbacks+h.Deaths != 0 {
					t.Errorf("%s: %+v", k.Info().Op, h)
				}
			}
		})
	}
}

// TestDropoutIsTheSameWhenAForwardIsComputedAgain, and of a run that starts anew in the
// middle of another: what is dropped follows from the seed and the step alone.
func TestDropoutIsTheSameWhenAForwardIsComputedAgain(t *testing.T) {
	dir, c := tinyFolder(t), lora.Config{Rank: 4, Dropout: 0.3}
	start := func(change ...func(*trainer.EngineConfig)) *run {
		return newLoRARun(t, autograd.Heap{}, dir, c, nil, change...)
	}
	want := start().steps(5)
	again := start(func(c *trainer.EngineConfig) { c.GradientCheckpointing = true }).steps(5)
	if !slices.Equal(again.losses, want.losses) || !slices.EqualFunc(again.trained(), want.trained(), slices.Equal) {
		t.Errorf("losses %v with gradient checkpointing, %v without", again.losses, want.losses)
	}
	if other := start(func(c *trainer.EngineConfig) { c.Seed++ }).steps(5); slices.Equal(other.losses, want.losses) {
		t.Error("another seed drops the same")
	}
	none := c
	none.Dropout = 0
	if without := newLoRARun(t, autograd.Heap{}, dir, none, nil).steps(5); slices.Equal(without.losses, want.losses) {
		t.Error("no dropout gives the same losses")
	}
}

// level makes all numbers of a run's adapters the same, so that B is not zero.
func level(r *run) {
	for _, p := range r.model.Trainable() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] = 0.1
		}
	}
}

// TestDropoutIsAnotherInEachBatch runs the same batch again and again, and learns nothing.
func TestDropoutIsAnotherInEachBatch(t *testing.T) {
	dir, b := tinyFolder(t), slices.Collect(data.Batches(rows(t, 17), 3))[0]
	losses := func(accumulate, steps int) (all []float64) {
		r := newLoRARun(t, autograd.Heap{}, dir, lora.Config{Rank: 4, Dropout: 0.3}, nil, func(c *trainer.EngineConfig) { c.Accumulate = accumulate })
		level(r)
		for range steps {
			done, err := r.engine.Step(t.Context(), slices.Repeat([]data.Batch{b}, accumulate), 0)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, done.Loss)
		}
		return all
	}
	single := losses(1, 2)
	if single[0] == single[1] {
		t.Error("two steps drop the same")
	}
	if double := losses(2, 1)[0]; math.Abs(double-single[0]) < 1e-5 {
		t.Errorf("the batches of a step drop the same: loss %g, %g of one batch", double, single[0])
	}
}

// TestEvaluationHasNoDropout: it gives the same for any share.
func TestEvaluationHasNoDropout(t *testing.T) {
	dir := tinyFolder(t)
	evaluate := func(dropout float64) float64 {
		r := newLoRARun(t, autograd.Heap{}, dir, lora.Config{Rank: 4, Dropout: dropout}, nil)
		level(r)
		loss, _, err := r.engine.Evaluate(t.Context(), data.Batches(rows(t, 17), 3))
		if err != nil {
			t.Fatal(err)
		}
		return loss
	}
	if a, b := evaluate(0), evaluate(0.9); a != b {
		t.Errorf("loss %g, and %g with dropout", a, b)
	}
}

// TestResumingWithAnotherAdapterConfigurationIsRefused: --adapter names a folder, and what
// is in it may have changed meanwhile.
func TestResumingWithAnotherAdapterConfigurationIsRefused(t *testing.T) {
	base, first := tinyFolder(t), filepath.Join(t.TempDir(), "first")
	j := long(t, first)
	adapted(t, j, base, lora.Config{Rank: 2, Alpha: 4})
	run1(t, j)
	further := func(out string) *trainer.Job {
		j := long(t, out)
		adapted(t, j, base, lora.Config{Adapter: first})
		return j
	}
	out := filepath.Join(t.TempDir(), "out")
	run1(t, further(out))
	run1(t, resumed(t, further(out)))
	path := filepath.Join(first, lora.ConfigFile)
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(config, []byte(`"lora_alpha": 4`), []byte(`"lora_alpha": 8`), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(first, checkpoint.SumsFile)); err != nil { // as one does who means it
		t.Fatal(err)
	}
	const want = "says r 2, lora_alpha 4, lora_dropout 0, use_rslora false, use_dora false, but the adapter to fill has " +
		"r 2, lora_alpha 8"
	if _, err := resumed(t, further(out)).Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestAMergedFolderHasTheTemplateOfItsAdapter, which it was trained on, or else the model's.
func TestAMergedFolderHasTheTemplateOfItsAdapter(t *testing.T) {
	base, adapter := tinyFolder(t), filepath.Join(t.TempDir(), "adapter")
	j := long(t, adapter)
	adapted(t, j, base, lora.Config{Rank: 2})
	run1(t, j)
	const name = "chat_template.jinja"
	write := func(dir, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	merged := func(out string) string {
		out = filepath.Join(t.TempDir(), out)
		if _, err := trainer.Merge(t.Context(), base, adapter, out, autograd.Heap{}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write(base, "the model's")
	if got := merged("first"); got != "the model's" {
		t.Errorf("the template is %q", got)
	}
	write(adapter, "the adapter's")
	if got := merged("second"); got != "the adapter's" {
		t.Errorf("the template is %q", got)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	out := t.TempDir()
	_, err := trainer.Merge(ctx, base, adapter, filepath.Join(out, "third"), autograd.Heap{})
	if left, _ := filepath.Glob(filepath.Join(out, "third*")); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("interrupted: %v; it has left %v", err, left)
	}
}
