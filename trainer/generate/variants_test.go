package generate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/internal/golden"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// adapters differ in rank, scale and targets; texts of "" have none.
var adapters = map[string]lora.Config{
	"all":  {Rank: 3, Alpha: 6},
	"some": {Rank: 8, Alpha: 2, RSLoRA: true, Targets: []string{"o_proj", "down_proj"}},
}

// names are the adapters that texts have in turn.
var names = []string{"all", "", "some"}

// frozen loads a model for use, with the adapter of a folder unless that is empty.
func frozen(t *testing.T, dir, adapter string) *models.Model {
	t.Helper()
	m, err := models.LoadWith(dir, autograd.Heap{},
		models.LoadOptions{Frozen: true, LoRA: lora.Config{Adapter: adapter}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

// saveAdapters writes a folder of random numbers for each adapter.
func saveAdapters(t *testing.T, dir string) map[string]string {
	t.Helper()
	folders := map[string]string{"": ""}
	for name, config := range adapters {
		m, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: config})
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(uint64(config.Rank), 0))
		for _, p := range m.Trainable() {
			for i := range p.Tensor.Float32s() {
				p.Tensor.Float32s()[i] = 0.1 * float32(random.NormFloat64())
			}
		}
		saved, err := m.Saved()
		if err != nil {
			t.Fatal(err)
		}
		folders[name] = t.TempDir()
		if err := os.WriteFile(filepath.Join(folders[name], saved.ConfigFile), saved.Config, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Write(filepath.Join(folders[name], saved.WeightsFile), saved.Weights, nil); err != nil {
			t.Fatal(err)
		}
		m.Free()
	}
	return folders
}

// besideAll is a model with all adapters beside it.
func besideAll(t *testing.T, dir string, folders map[string]string) *models.Model {
	t.Helper()
	m := frozen(t, dir, "")
	for name := range adapters {
		if err := m.AddVariant(name, folders[name]); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestTextsOfSeveralAdaptersHaveTheirOwnBits: eight texts of different lengths, with two adapters and with none, have
// in company the probabilities that they have alone in a model that was loaded with their adapter.
func TestTextsOfSeveralAdaptersHaveTheirOwnBits(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(testdata.Shared(t, "golden", "models"), "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d reference models, %v", len(dirs), err)
	}
	story := testdata.Shared(t, "data", "models", "stories15M")
	tok := loadTokenizer(t, story)
	for _, dir := range append(dirs, story, golden.EightBits(t, dirs[0])) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			folders := saveAdapters(t, dir)
			m := besideAll(t, dir, folders)
			prompts, n := asked(m.Vocab())
			want := make([]written, len(prompts))
			for first, name := range names {
				alone := engineOf(t, frozen(t, dir, folders[name]), tok,
					generate.EngineConfig{BlockSize: 128, Limit: 128})
				for i := first; i < len(prompts); i += len(names) {
					if want[i], err = write(t.Context(), alone, prompts[i], n[i], nil); err != nil {
						t.Fatal(err)
					}
				}
				alone.Close()
			}
			e := engineOf(t, m, tok, generate.EngineConfig{BlockSize: 128, Limit: 128})
			defer e.Close()
			for _, company := range []bool{false, true} {
				var all sync.WaitGroup
				for i, p := range prompts {
					name := names[i%len(names)]
					all.Go(func() {
						w, err := writeAs(t.Context(), e, name, p, n[i], nil)
						if err != nil || !slices.Equal(w.tokens, want[i].tokens) || !slices.Equal(w.logProbs, want[i].logProbs) {
							t.Errorf("text %d, adapter %q, in company: %v: %v, %v; loaded alone %v", i, name, company,
								w.tokens, err, want[i].tokens)
						}
					})
					if !company {
						all.Wait()
					}
				}
				all.Wait()
			}
		})
	}
}

// TestAdaptersChangeTexts, each in its own way; otherwise the tests beside this one would show nothing.
func TestAdaptersChangeTexts(t *testing.T) {
	dir := testdata.Shared(t, "golden", "models", "qwen3-moe")
	m := besideAll(t, dir, saveAdapters(t, dir))
	e := engineOf(t, m, loadTokenizer(t, testdata.Shared(t, "data", "models", "stories15M")), generate.EngineConfig{})
	defer e.Close()
	seen := map[string]string{}
	for _, name := range names {
		w, err := writeAs(t.Context(), e, name, []int32{1, 2, 3}, 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(w.logProbs)
		if other, ok := seen[text]; ok {
			t.Errorf("adapters %q and %q give the same", name, other)
		}
		seen[text] = name
	}
}

// TestTextsOfSeveralAdaptersShareNothing of the cache but with their like, though they begin with the same tokens.
func TestTextsOfSeveralAdaptersShareNothing(t *testing.T) {
	dir := testdata.Shared(t, "data", "models", "stories15M")
	folders := saveAdapters(t, dir)
	m := besideAll(t, dir, folders)
	e := engineOf(t, m, loadTokenizer(t, dir), generate.EngineConfig{BlockSize: 4})
	defer e.Close()
	prompt := random(m.Vocab(), 41)
	first := map[string]written{}
	for round, hits := range []int64{0, 40} {
		for _, name := range names {
			before := e.Stats().PrefixHits
			w, err := writeAs(t.Context(), e, name, prompt, 20, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Stats().PrefixHits - before; got != hits {
				t.Errorf("round %d: adapter %q found %d tokens in the cache, want %d", round, name, got, hits)
			}
			if round == 0 {
				first[name] = w
			} else if !slices.Equal(w.tokens, first[name].tokens) {
				t.Errorf("adapter %q: %v, at first %v", name, w.tokens, first[name].tokens)
			}
		}
	}
}

// TestTextsOfSeveralAdaptersAreTheSameWithKernels.
func TestTextsOfSeveralAdaptersAreTheSameWithKernels(t *testing.T) {
	dir := testdata.Shared(t, "data", "models", "stories15M")
	tok, folders := loadTokenizer(t, dir), saveAdapters(t, dir)
	var want []written
	for _, kernels := range []string{"none", "all"} {
		m := besideAll(t, dir, folders)
		place(t, m, kernels)
		e := engineOf(t, m, tok, generate.EngineConfig{})
		prompts, n := asked(m.Vocab())
		got := make([]written, len(prompts))
		var all sync.WaitGroup
		for i, p := range prompts {
			all.Go(func() {
				var err error
				if got[i], err = writeAs(t.Context(), e, names[i%len(names)], p, n[i], nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		e.Close()
		for i := range want {
			if !slices.Equal(got[i].tokens, want[i].tokens) {
				t.Errorf("text %d: %v, without kernels %v", i, got[i].tokens, want[i].tokens)
			}
		}
		want = got
	}
}

// TestAnAdapterOfAnotherModelIsRefused by its name, the file and the field.
func TestAnAdapterOfAnotherModelIsRefused(t *testing.T) {
	folders := saveAdapters(t, testdata.Shared(t, "golden", "models", "llama-tiny"))
	dir := testdata.Shared(t, "golden", "models", "qwen3-tied")
	for name, tt := range map[string]struct {
		change func(config string) string
		want   []string
	}{
		"shapes": {func(c string) string { return c },
			[]string{`adapter "x"`, "adapter_model.safetensors", ".lora_", "base_model_name_or_path is "}},
		"targets": {func(c string) string { return strings.Replace(c, `"o_proj"`, `"c_proj"`, 1) },
			[]string{`adapter "x"`, "adapter_config.json: field target_modules", `"c_proj"`, "base_model_name_or_path is "}},
		"DoRA": {func(c string) string { return strings.Replace(c, `"use_dora": false`, `"use_dora": true`, 1) },
			[]string{`adapter "x"`, "it has magnitudes (use_dora), which only one adapter of a model can have"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folders["some"], lora.ConfigFile)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := tt.change(string(good))
			if changed == string(good) && name != "shapes" {
				t.Fatal("nothing was changed")
			}
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			err = frozen(t, dir, "").AddVariant("x", folders["some"])
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
			if err := os.WriteFile(path, good, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestWeightsAreThereOnce: adapters take the memory of their own numbers and no more.
func TestWeightsAreThereOnce(t *testing.T) {
	dir := testdata.Shared(t, "data", "models", "stories15M")
	folders := saveAdapters(t, dir)
	mem := &counted{}
	m, err := models.LoadWith(dir, mem, models.LoadOptions{Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	base, want := mem.bytes, 0
	for name, config := range adapters {
		if err := m.AddVariant(name, folders[name]); err != nil {
			t.Fatal(err)
		}
		for _, target := range m.Targets() {
			if config.Targets == nil || slices.ContainsFunc(config.Targets, func(s string) bool {
				return strings.HasSuffix(target.Name, s)
			}) {
				want += 4 * config.Rank * (target.In + target.Out)
			}
		}
	}
	if got := mem.bytes - base; got != want {
		t.Errorf("adapters took %d bytes, want %d", got, want)
	}
	m.Free()
	if mem.bytes != 0 {
		t.Errorf("%d bytes are left", mem.bytes)
	}
}

// counted is a heap that counts what was taken and not given back.
type counted struct {
	autograd.Heap
	bytes int
}

func (c *counted) Alloc(n int) ([]byte, error) {
	c.bytes += n
	return c.Heap.Alloc(n)
}

func (c *counted) Free(b []byte) {
	c.bytes -= len(b)
	c.Heap.Free(b)
}

func TestAnAdapterThatIsNotThereIsRefused(t *testing.T) {
	e, _ := newEngine(t, generate.EngineConfig{})
	_, err := e.Generate(t.Context(), generate.Request{Prompt: []int32{1}, Adapter: "x"})
	if err == nil || !strings.Contains(err.Error(), `there is no adapter "x"`) {
		t.Errorf("error %v", err)
	}
}
