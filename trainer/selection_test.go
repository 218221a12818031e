package trainer_test

import (
	"math"
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
	"github.com/seed98097648/tune/trainer/nn"
)

// selected makes the model of a job one in bfloat16 of which a part is trained.
func selected(t *testing.T, j *trainer.Job, dir string, s models.Selection, c lora.Config) *trainer.Job {
	t.Helper()
	halves(t, j, dir)
	var err error
	if j.Model, err = models.LoadWith(dir, j.Memory, models.LoadOptions{LoRA: c, Train: s, Seed: j.Config.Seed}); err != nil {
		t.Fatal(err)
	}
	j.Config.Select, j.Config.LoRA = s, c
	return j
}

// values returns every parameter of a model in float32.
func values(m *models.Model) map[string][]float32 {
	all := map[string][]float32{}
	for _, p := range m.Params() {
		v := make([]float32, p.Tensor.Elems())
		p.Tensor.Load(v, 0)
		all[p.Name] = v
	}
	return all
}

// selections of what is trained, and whether a weight is.
var selections = map[string]struct {
	selection models.Selection
	lora      lora.Config
	trains    func(name string) bool
}{
	"but some": {models.Selection{Freeze: []string{"embed_tokens", "layers.0.mlp", "q_proj"}}, lora.Config{},
		func(n string) bool {
			return !strings.Contains(n, "embed_tokens") && !strings.Contains(n, "layers.0.mlp") && !strings.Contains(n, "q_proj")
		}},
	"the last layer": {models.Selection{Layers: 1}, lora.Config{},
		func(n string) bool { return strings.Contains(n, "layers.1.") }},
	"the first layer, and the head": {models.Selection{Layers: -1, Modules: []string{"lm_head", "norm"}}, lora.Config{},
		func(n string) bool {
			return strings.Contains(n, "layers.0.") || n == "lm_head.weight" || n == "model.norm.weight"
		}},
	"experts alone": {models.Selection{Modules: []string{"experts"}}, lora.Config{},
		func(n string) bool { return strings.Contains(n, "experts") }},
	"beside adapters of a layer": {models.Selection{Modules: []string{"embed_tokens", "norm"}},
		lora.Config{Rank: 2, Layers: []int{1}, Targets: []string{"q_proj", "v_proj"}},
		func(n string) bool {
			return strings.Contains(n, "embed_tokens") || n == "model.norm.weight" ||
				strings.Contains(n, "layers.1") && strings.Contains(n, "lora_")
		}},
}

// onlyMoved wants those weights to differ from before that are trained.
func onlyMoved(t *testing.T, m *models.Model, before map[string][]float32, trains func(string) bool) {
	t.Helper()
	for n, v := range values(m) {
		if moved := !slices.Equal(v, before[n]); moved != trains(n) {
			t.Errorf("%s: moved is %v", n, moved)
		}
	}
}

// TestWhatIsSelectedIsTrained: nothing else moves, and a run that was given up goes on to the same bits.
func TestWhatIsSelectedIsTrained(t *testing.T) {
	for name, c := range selections {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			j := selected(t, long(t, filepath.Join(t.TempDir(), "whole")), base, c.selection, c.lora)
			before := values(j.Model)
			run1(t, j)
			onlyMoved(t, j.Model, before, c.trains)
			for _, p := range j.Model.Params() {
				if wide := p.Tensor.DType == core.Float32; wide == (p.Frozen && len(p.Tensor.Shape) > 1) {
					t.Errorf("%s, frozen %v, is %s", p.Name, p.Frozen, p.Tensor.DType)
				}
			}
			out := filepath.Join(t.TempDir(), "parts")
			dies(t, selected(t, long(t, out), base, c.selection, c.lora), 5)
			masters, err := filepath.Glob(filepath.Join(out, "checkpoint-*", "master.safetensors"))
			if err != nil || (len(masters) > 0) != (c.lora.Rank == 0) { // an adapter's file is float32
				t.Errorf("what half precision loses is in %q, %v", masters, err)
			}
			run1(t, resumed(t, selected(t, long(t, out), base, c.selection, c.lora)))
			sameResult(t, out, j.Config.Out)
		})
	}
}

// TestTheDiskIsToHoldWhatIsSaved: all of the model, also what of it is not trained, or the adapter alone.
func TestTheDiskIsToHoldWhatIsSaved(t *testing.T) {
	for name, c := range selections {
		for _, init := range []string{"", lora.PiSSA} {
			if c.lora.Init = init; init != "" && c.lora.Rank == 0 {
				continue
			}
			m := selected(t, long(t, t.TempDir()), t.TempDir(), c.selection, c.lora).Model
			saved, err := m.Saved()
			if err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			for _, w := range saved.Weights {
				want += int64(w.Bytes())
			}
			model, whole := trainer.DiskOf(m)
			for _, p := range m.Trainable() { // its moments
				whole -= 8 * int64(p.Tensor.Elems())
			}
			if model != want || whole < want || m.Adapter != nil && whole != want {
				t.Errorf("%s %s: %d bytes of the model and %d of a checkpoint without moments, want %d", name, init, model, whole,
					want)
			}
		}
	}
}

// TestKernelsTrainWhatIsSelected, and learn what the plain model does.
func TestKernelsTrainWhatIsSelected(t *testing.T) {
	mem := plugintest.Memory(t)
	reg := plugintest.Scan(t, transport.Options{})
	for name, c := range selections {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			run := func(kernels string) *trainer.Summary {
				j := long(t, filepath.Join(t.TempDir(), "out"))
				j.Memory, j.Registry, j.Config.Kernels = mem, reg, kernels
				j = selected(t, j, base, c.selection, c.lora)
				before := values(j.Model)
				s := run1(t, j)
				onlyMoved(t, j.Model, before, c.trains)
				return s
			}
			plain, got := run("none"), run("all")
			if len(plain.Report.Applied()) > 0 || len(got.Report.Applied()) < 6 {
				t.Fatal(plain.Report, got.Report)
			}
			if len(got.Wrong) > 0 {
				t.Errorf("taken off: %v", got.Wrong)
			}
			if !(math.Abs(got.Last.Loss-plain.Last.Loss) <= 1e-4*plain.Last.Loss) {
				t.Errorf("the loss is %g in the end, %g of the plain model", got.Last.Loss, plain.Last.Loss)
			}
		})
	}
}

// logitsOf runs a model on a few tokens.
func logitsOf(t *testing.T, m *models.Model) []float32 {
	t.Helper()
	c, err := nn.NewContext(autograd.Heap{}, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	out := m.Forward(c)
	out.Logits.Keep()
	prog, err := m.Compile(c, out.Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	row := rows(t, 8)[:1]
	for b := range data.Batches(row, 1) {
		if err := prog.Batch.Fill(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := prog.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(prog.Tensor(out.Logits).Float32s())
}

// TestModulesBesideAdaptersAreSaved: the folder has them under PEFT's names, a model that is loaded
// with it computes what was trained, to the bit, and so does one that it was merged into.
func TestModulesBesideAdaptersAreSaved(t *testing.T) {
	base, out := filepath.Join(t.TempDir(), "base"), filepath.Join(t.TempDir(), "adapter")
	j := selected(t, long(t, out), base, models.Selection{Modules: []string{"embed_tokens", "lm_head", "norm"}},
		lora.Config{Rank: 2, Layers: []int{0}, Targets: []string{"q_proj"}})
	j.Config.Checkpoints = trainer.Checkpoints{}
	run1(t, j)
	want := logitsOf(t, j.Model)
	f, err := checkpoint.Open(filepath.Join(out, lora.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	names := f.Names()
	f.Close()
	slices.Sort(names)
	if got := []string{"base_model.model.lm_head.weight", "base_model.model.model.embed_tokens.weight",
		"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
		"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", "base_model.model.model.norm.weight"}; !slices.Equal(names, got) {
		t.Errorf("tensors %q, want %q", names, got)
	}
	loaded, err := models.LoadWith(base, autograd.Heap{}, models.LoadOptions{Frozen: true, LoRA: lora.Config{Adapter: out}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(logitsOf(t, loaded), want) {
		t.Error("a model with the adapter computes something else")
	}
	if n := len(loaded.Trainable()); n != 2 { // A and B
		t.Errorf("%d parameters of a model that writes are trainable", n)
	}
	merged := filepath.Join(t.TempDir(), "merged")
	if _, err := trainer.Merge(t.Context(), base, out, merged, autograd.Heap{}); err != nil {
		t.Fatal(err)
	}
	m, err := models.Load(merged, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	near := logitsOf(t, m)
	for i, v := range near {
		if d := v - want[i]; !(d >= -0.05 && d <= 0.05) { // the merged weights are bfloat16
			t.Fatalf("logit %d of the merged model is %v, want %v", i, v, want[i])
		}
	}
	plain, err := models.LoadWith(base, autograd.Heap{}, models.LoadOptions{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.AddVariant("a", out); err == nil || !strings.Contains(err.Error(), "has modules_to_save (lm_head, model.embed_tokens, model.norm)") {
		t.Errorf("beside other texts: %v", err)
	}
	if _, err := models.LoadWith(base, autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Adapter: out},
		Train: models.Selection{Modules: []string{"norm"}}}); err == nil || !strings.Contains(err.Error(), "brings its own") {
		t.Errorf("other modules than the adapter has: %v", err)
	}
}

func TestSelectionsAreChecked(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	halves(t, long(t, ""), base)
	for want, o := range map[string]models.LoadOptions{
		`no parameter is called "q"`:                   {Train: models.Selection{Freeze: []string{"q"}}},
		`has "[", which is no pattern`:                 {Train: models.Selection{Modules: []string{"["}}},
		"Layers is 3, but the model has 2":             {Train: models.Selection{Layers: 3}},
		"leaves nothing to train":                      {Train: models.Selection{Freeze: []string{"*"}}},
		"are for training without adapters":            {Train: models.Selection{Layers: 1}, LoRA: lora.Config{Rank: 1}},
		"experts.0.down_proj names 1 of the 4 tensors": {Train: models.Selection{Freeze: []string{"experts.0.down_proj"}}},
		"would have an adapter and be trained":         {Train: models.Selection{Modules: []string{"q_proj"}}, LoRA: lora.Config{Rank: 1}},
		"lora.Config.Layers has 7, but there is":       {LoRA: lora.Config{Rank: 1, Layers: []int{7}}},
	} {
		if _, err := models.LoadWith(base, autograd.Heap{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestATiedEmbeddingIsTheHeadToo: PEFT has a copy of each, and so has the file.
func TestATiedEmbeddingIsTheHeadToo(t *testing.T) {
	config := strings.Replace(tiny, `"norm_topk_prob"`, `"tie_word_embeddings": true, "norm_topk_prob"`, 1)
	for _, name := range []string{"embed_tokens", "lm_head"} {
		m, err := models.NewWith([]byte(config), autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Rank: 1},
			Train: models.Selection{Modules: []string{name}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.Saved()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"lm_head"`, `"model.embed_tokens"`} {
			if !strings.Contains(string(s.Config), want) {
				t.Errorf("%s: %s has no %s", name, s.Config, want)
			}
		}
		if n := len(s.Weights); s.Weights[n-1].Name != "base_model.model.lm_head.weight" {
			t.Errorf("%s: the last tensor is %s", name, s.Weights[n-1].Name)
		}
	}
}
