package models_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
)

// patterned writes an adapter of random numbers whose modules have other ranks than r: 1 for v_proj, 3 for the experts'
// down_proj, and says so in the words of PEFT that are given.
func patterned(t *testing.T, dir string, said map[string]json.RawMessage) string {
	t.Helper()
	var tensors []checkpoint.Named
	for target, rank := range map[string]int{"q_proj": 2, "v_proj": 1, "down_proj": 3} {
		m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: rank, Targets: []string{target}}})
		scatterFrom(m, uint64(rank))
		s, err := m.Saved()
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, s.Weights...)
	}
	fields := map[string]json.RawMessage{"peft_type": []byte(`"LORA"`), "task_type": []byte(`"CAUSAL_LM"`), "r": []byte("2"),
		"lora_alpha": []byte("4"), "target_modules": []byte(`["q_proj", "v_proj", "down_proj"]`)}
	for name, value := range said {
		fields[name] = value
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	adapter := t.TempDir()
	write(t, adapter, lora.ConfigFile, text)
	if err := checkpoint.Write(filepath.Join(adapter, lora.WeightsFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return adapter
}

// TestModulesHaveRanksAndAlphasOfTheirOwn as PEFT's patterns say: the first expression that matches the end of a module's
// path counts, and scale B A, added to the weights here, is what the model with the adapter computes.
func TestModulesHaveRanksAndAlphasOfTheirOwn(t *testing.T) {
	dir := stored(t, "qwen3_moe", core.Float32)
	for _, tt := range []struct {
		ranks, alphas string
		scale         func(module string) float64
	}{
		{`{"v_proj": 1, "down_proj": 3}`, `{}`, func(module string) float64 {
			return 4 / map[string]float64{"q_proj": 2, "v_proj": 1, "down_proj": 3}[module[strings.LastIndexByte(module, '.')+1:]]
		}},
		{`{".*v_proj|z": 1, "v_proj": 7, "(experts\\.\\d+|mlp)\\.down_proj": 3, "proj": 9}`,
			`{"layers.0.self_attn.[qv]_proj": 6, "^model\\.layers\\.1\\..*v_proj": 5, "layers.1.self_attn.v_proj": 8, "own_proj": 1}`,
			func(module string) float64 {
				switch {
				case strings.HasSuffix(module, "0.self_attn.q_proj"):
					return 3
				case strings.HasSuffix(module, "0.self_attn.v_proj"):
					return 6
				case strings.HasSuffix(module, "1.self_attn.v_proj"):
					return 5
				case strings.HasSuffix(module, "q_proj"):
					return 2
				}
				return 4.0 / 3
			}},
	} {
		saved := patterned(t, dir, map[string]json.RawMessage{"rank_pattern": []byte(tt.ranks), "alpha_pattern": []byte(tt.alphas)})
		with := func(adapter string) *models.Model {
			return loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
		}
		m := with(saved)
		want, _ := evaluate(t, m)
		if got, _ := evaluate(t, added(t, dir, saved, tt.scale)); !(distance(got, want) <= 0x1p-19) {
			t.Errorf("%s %s: the logits are not those of the sums, by %.3g", tt.ranks, tt.alphas, distance(got, want))
		}
		again := saveAdapter(t, m)
		if got, _ := evaluate(t, with(again)); !slices.Equal(got, want) {
			t.Errorf("%s %s: saved again the logits differ, by %.3g", tt.ranks, tt.alphas, distance(got, want))
		}
		if err := m.Adapter.Read(again); err != nil {
			t.Error(err)
		}
		if d, _ := merged(t, m, named(t, load(t, dir))); !(d <= 0x1p-19) {
			t.Errorf("%s %s: merged the logits differ, by %.3g", tt.ranks, tt.alphas, d)
		}
	}
}

// added returns the model of a folder with scale B A added to each weight, in float64.
func added(t *testing.T, dir, adapter string, scale func(module string) float64) *models.Model {
	t.Helper()
	m := load(t, dir)
	f, err := checkpoint.Open(filepath.Join(adapter, lora.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range named(t, m) {
		module := strings.TrimSuffix(n.Name, ".weight")
		a, err := f.Tensor("base_model.model." + module + ".lora_A.weight")
		if err != nil {
			continue // it has no adapter
		}
		b, err := f.Tensor("base_model.model." + module + ".lora_B.weight")
		if err != nil {
			t.Fatal(err)
		}
		rank, in, w := a.Shape[0], a.Shape[1], n.Tensor.Float32s()
		for i := range w {
			sum := 0.0
			for r := range rank {
				sum += float64(b.Float32s()[i/in*rank+r]) * float64(a.Float32s()[r*in+i%in])
			}
			w[i] = float32(float64(w[i]) + scale(module)*sum)
		}
	}
	return m
}

// TestPatternsThatCannotBeAreRefused with the field that is to be changed.
func TestPatternsThatCannotBeAreRefused(t *testing.T) {
	dir := stored(t, "qwen3_moe", core.Float32)
	for _, tt := range []struct{ field, value, want string }{
		{"rank_pattern", `{"v_proj": 1}`, "mlp.down_proj.lora_A.weight is [3 20], want [2 20]"},
		{"rank_pattern", `{"v_proj": 0}`, `field rank_pattern gives "v_proj" 0, must be a whole number between 1 and`},
		{"rank_pattern", `{"v_proj": 1.5}`, `field rank_pattern gives "v_proj" 1.5, must be a whole number`},
		{"rank_pattern", `{"(?=v_)v_proj": 1}`, `field rank_pattern: "(?=v_)v_proj": error parsing regexp`},
		{"rank_pattern", `{"v_proj": 1, "experts.1.down_proj": 3}`, "experts.0.down_proj has r 2 and lora_alpha 4, but " +
			"model.layers.1.mlp.experts.1.down_proj has 3 and 4; all experts of a layer need the same"},
		{"rank_pattern", `[1]`, "field rank_pattern: want an object, have a list"},
		{"alpha_pattern", `{"v_proj": -1}`, `field alpha_pattern gives "v_proj" -1, must not be negative`},
		{"alpha_pattern", `{"v_proj": "1"}`, "field alpha_pattern: want a number, have a string"},
		{"alpha_pattern", `{"v_proj": null}`, "field alpha_pattern: want a number, have a null"},
	} {
		adapter := patterned(t, dir, map[string]json.RawMessage{tt.field: []byte(tt.value)})
		_, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: error %v, want one with %q", tt.field, tt.value, err, tt.want)
		}
	}
}

// TestPatternsKeepTheirOrder, which says what counts where several entries match.
func TestPatternsKeepTheirOrder(t *testing.T) {
	dir := stored(t, "qwen3_moe", core.Float32)
	ranks, alphas := `{"v_proj":1,"down_proj":3,"a":2}`, `{"z":1,"b":2.5,"c":3}`
	m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: patterned(t, dir,
		map[string]json.RawMessage{"rank_pattern": []byte(ranks), "alpha_pattern": []byte(alphas)})}})
	text, err := os.ReadFile(filepath.Join(saveAdapter(t, m), lora.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"rank_pattern": ranks, "alpha_pattern": alphas} {
		if got := strings.Join(strings.Fields(string(fields[name])), ""); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
