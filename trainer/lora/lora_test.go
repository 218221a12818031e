package lora

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/nn"
)

// body has a linear layer of each name, from 50 to 40 features.
func body(names ...string) *nn.Body {
	b := nn.NewBuilder(autograd.Heap{})
	for _, name := range names {
		nn.NewLinear(b, name, 50, 40, false)
	}
	body := b.Body()
	return &body
}

// peft is an adapter_config.json as PEFT 0.18 writes it.
const peft = `{"alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
	"base_model_name_or_path": "meta-llama/Llama-3.2-1B", "bias": "none", "corda_config": null,
	"ensure_weight_tying": false,
	"eva_config": null, "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
	"init_lora_weights": true,
	"layer_replication": null, "layers_pattern": null, "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 32,
	"lora_bias": false, "lora_dropout": 0.05, "megatron_config": null, "megatron_core": "megatron.core",
	"modules_to_save": null,
	"peft_type": "LORA", "peft_version": "0.18.0", "qalora_group_size": 16, "r": 8, "rank_pattern": {}, "revision": null,
	"target_modules": ["v_proj", "q_proj"], "target_parameters": null, "task_type": "CAUSAL_LM",
	"trainable_token_indices": null,
	"use_dora": false, "use_qalora": false, "use_rslora": false}`

func TestAConfigurationOfPEFTIsRead(t *testing.T) {
	c, base, err := parse([]byte(peft))
	want := Config{Rank: 8, Alpha: 32, Dropout: 0.05, Targets: []string{"v_proj", "q_proj"}}
	if err != nil || base != "meta-llama/Llama-3.2-1B" || !cmp.Equal(c, want) {
		t.Errorf("%+v of %s, %v; want %+v", c, base, err, want)
	}
	for _, start := range []string{"null", "false", `"gaussian"`} {
		if _, _, err := parse([]byte(strings.Replace(peft, `"init_lora_weights": true`, `"init_lora_weights": `+start,
			1))); err != nil {
			t.Errorf("started as %s: %v", start, err)
		}
	}
	least := `{"peft_type": "LORA", "target_modules": "all-linear", "task_type": null}`
	if c, _, err = parse([]byte(least)); err != nil ||
		!cmp.Equal(c, Config{Rank: 8, Alpha: 8, Targets: []string{AllLinear}}) {
		t.Errorf("what is left out became %+v, %v; want PEFT's defaults", c, err)
	}
}

func TestWhatIsNotSupportedIsRefusedByName(t *testing.T) {
	for _, tt := range []struct{ field, value, want string }{
		{"use_qalora", "true", "field use_qalora is true, which is not supported"},
		{"bias", `"all"`, `field bias is "all"`},
		{"layers_pattern", `["h"]`, `field layers_pattern is ["h"]`},
		{"target_parameters", `["mlp.experts.gate_up_proj"]`, "field target_parameters is"},
		{"fan_in_fan_out", "true", "field fan_in_fan_out is true"},
		{"lora_bias", "true", "field lora_bias is true"},
		{"something_new", `{"a": 1}`, "field something_new is"},
		{"peft_type", `"IA3"`, `field peft_type is "IA3"`},
		{"task_type", `"SEQ_CLS"`, `field task_type is "SEQ_CLS"`},
		{"target_modules", "[]", "field target_modules names no module"},
		{"target_modules", "null", "field target_modules names no module"},
		{"r", "0", "field r is 0"},
		{"r", `"8"`, "field r: want a whole number, have a string"},
		{"init_lora_weights", `"pissa_niter_4"`,
			"field init_lora_weights is pissa_niter_4: such an adapter may belong to other weights"},
		{"init_lora_weights", `"loftq"`, "field init_lora_weights is loftq"},
		{"init_lora_weights", `{"a": 1}`, "field init_lora_weights is map"},
		{"lora_alpha", "-1", "is -1, must not be negative"},
		{"lora_alpha", "1e39", "is 1e+39, must not be negative, and finite in float32"},
		{"lora_dropout", "1", "is 1, must be at least 0 and below 1"},
	} {
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(peft), &all); err != nil {
			t.Fatal(err)
		}
		all[tt.field] = json.RawMessage(tt.value)
		b, err := json.MarshalIndent(all, "", "  ") // as PEFT does, which the error is not to repeat
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := parse(b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s = %s: error %v, want %q", tt.field, tt.value, err, tt.want)
		}
	}
}

// TestWeightsInAnotherFormatAreSaidToBeThat, as older programs save an adapter beside the same adapter_config.json.
func TestWeightsInAnotherFormatAreSaidToBeThat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ConfigFile), []byte(peft), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readConfig(dir); err == nil || !strings.Contains(err.Error(), "adapter_model.bin") {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	a, err := New(body("a.q_proj", "b.q_proj", "b.up"), Config{Rank: 4, Dropout: 0.25, RSLoRA: true}, "a/model", 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := a.JSON()
	if err != nil {
		t.Fatal(err)
	}
	c, base, err := parse(b)
	want := Config{Rank: 4, Alpha: 8, Dropout: 0.25, RSLoRA: true, Targets: []string{"q_proj", "up"}}
	if err != nil || base != "a/model" || !cmp.Equal(c, want) {
		t.Errorf("%+v of %s, %v; want %+v", c, base, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(peft))
	f.Add([]byte(`{"peft_type": "LORA", "r": 1e3, "target_modules": "all-linear"}`))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": ".*_proj"}`))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": ["q_proj"], "exclude_modules": "lm_head"}`))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": ["q"], "rank_pattern": {"q": 4}, "alpha_pattern": {"k": 1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, base, err := parse(b)
		if err != nil {
			return
		}
		if c.Rank < 1 || c.Validate() != nil {
			t.Fatalf("%q became %+v", b, c)
		}
		if c.Targets == nil { // there is a pattern, which only the file beside it resolves
			return
		}
		again, err := json.Marshal(fields{Base: base, Rank: c.Rank, Alpha: c.Alpha, Dropout: c.Dropout, Targets: c.Targets,
			RSLoRA:      c.RSLoRA,
			RankPattern: c.Ranks, AlphaPattern: c.Alphas,
			PEFTType: "LORA", TaskType: causal, Bias: "none"})
		if err != nil {
			t.Fatal(err)
		}
		if d, _, err := parse(again); err != nil || !cmp.Equal(c, d) {
			t.Fatalf("%+v became %+v, %v", c, d, err)
		}
	})
}

// TestTheStartIsThatOfPEFT: A is uniform in +-1/sqrt(in), which is what Kaiming's
// initialisation with a = sqrt(5) comes down to, and B is zero.
func TestTheStartIsThatOfPEFT(t *testing.T) {
	start := func(seed uint64) (A, B []float32) {
		m := body("a.q", "a.k")
		if _, err := New(m, Config{Rank: 16}, "", seed); err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Params() {
			switch {
			case strings.HasSuffix(p.Name, "lora_A.weight"):
				A = append(A, p.Tensor.Float32s()...)
			case strings.HasSuffix(p.Name, "lora_B.weight"):
				B = append(B, p.Tensor.Float32s()...)
			}
		}
		return A, B
	}
	A, B := start(1)
	if slices.ContainsFunc(B, func(v float32) bool { return v != 0 }) {
		t.Error("B is not zero")
	}
	bound := 1 / math.Sqrt(50)
	var sum, squares float64
	for _, v := range A {
		if !(math.Abs(float64(v)) <= bound) {
			t.Fatalf("%v is more than %v", v, bound)
		}
		sum, squares = sum+float64(v), squares+float64(v)*float64(v)
	}
	// Six standard deviations of the mean of a uniform distribution, and of its square.
	n := float64(len(A))
	if !(math.Abs(sum/n) <= 6*bound/math.Sqrt(3*n)) ||
		!(math.Abs(squares/n-bound*bound/3) <= 6*bound*bound*math.Sqrt(4.0/45/n)) {
		t.Errorf("mean %v, mean square %v; want 0 and %v", sum/n, squares/n, bound*bound/3)
	}
	if slices.Equal(A[:len(A)/2], A[len(A)/2:]) {
		t.Error("two layers start alike")
	}
	same, _ := start(1)
	other, _ := start(2)
	if !slices.Equal(A, same) || slices.Equal(A, other) {
		t.Error("the start does not follow from the seed")
	}
}

func TestTheScaleIsAlphaOverTheRank(t *testing.T) {
	for _, tt := range []struct {
		c    Config
		want float64
	}{
		{Config{Rank: 16}, 2}, {Config{Rank: 16, Alpha: 8}, 0.5}, {Config{Rank: 16, Alpha: 8, RSLoRA: true}, 2},
	} {
		if got := tt.c.complete().adaptation().Scale; got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.c, got, tt.want)
		}
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for want, c := range map[string]Config{
		"lora.Config.Rank is -1":                 {Rank: -1},
		"lora.Config.Alpha is -2":                {Rank: 2, Alpha: -2},
		"lora.Config.Dropout is 1,":              {Rank: 2, Dropout: 1},
		"lora.Config.Targets has an empty name":  {Rank: 2, Targets: []string{"q", ""}},
		"all-linear stands alone":                {Rank: 2, Targets: []string{"q", AllLinear}},
		"without lora.Config.Rank":               {Dropout: 0.5},
		"lora.Config.Adapter has its rank":       {Rank: 2, Adapter: "dir"},
		"lora.Config.BaseInt8 is for LoRA":       {BaseInt8: true},
		"lora.Config.BaseNF4 is for LoRA":        {BaseNF4: true},
		"lora.Config.DoRA multiplies whole":      {Rank: 1, DoRA: true, Dropout: 0.1},
		"choose one":                             {Rank: 1, BaseInt8: true, BaseNF4: true},
		"lora.Config.Init is \"olora\"; known":   {Rank: 1, Init: "olora"},
		"which an adapter with lora.Config.DoRA": {Rank: 1, Init: PiSSA, DoRA: true},
		"without lora.Config.Rank, which":        {Init: PiSSA},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c, err, want)
		}
	}
	for _, c := range []Config{{}, {Rank: 8, Alpha: 4, Targets: []string{"q", "k"}, BaseInt8: true},
		{Adapter: "dir", BaseInt8: true}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestNamesMatchWholeElementsOfPaths, as PEFT's do.
func TestNamesMatchWholeElementsOfPaths(t *testing.T) {
	all := body("layers.0.q_proj", "layers.1.q_proj", "layers.1.gate_proj", "layers.1.gate").Targets()
	for name, want := range map[string]int{"q_proj": 2, "gate": 1, "1.q_proj": 1, "layers.0.q_proj": 1} {
		if got, err := (Config{Targets: []string{name}}).choose(all); err != nil || len(got) != want {
			t.Errorf("%s: %d targets, %v; want %d", name, len(got), err, want)
		}
	}
	if _, err := (Config{Targets: []string{"proj"}}).choose(all); err == nil ||
		!strings.Contains(err.Error(), `"proj"; the model has gate, gate_proj, q_proj`) {
		t.Errorf("part of a name: %v", err)
	}
}

// TestNamesMatchAsTheExpressionsThatTheyAre: those that are compared without an expression.
func TestNamesMatchAsTheExpressionsThatTheyAre(t *testing.T) {
	paths := []string{"", "a", "b", "a.b", "ab", "a.b.a", "b.a.b", "aab", "a.bb", "a..b"}
	for _, key := range []string{"", "a", ".", "a.b", "b.a", "...", "ab", ".b", "a."} {
		pattern := Pattern{{Key: key}, {Key: "(" + key + ")"}} // the second is no name
		all, err := pattern.compile()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if got, want := all[0](path), all[1](path); got != want {
				t.Errorf("%q of %q: %v, want %v", key, path, got, want)
			}
		}
	}
}

// TestSomeExpertsAlone: an adapter is for all experts of a layer or for none.
func TestSomeExpertsAlone(t *testing.T) {
	b := nn.NewBuilder(autograd.Heap{})
	nn.NewMoE(b, "mlp", "mlp", nn.MoEConfig{Hidden: 4, Intermediate: 6, Router: nn.RouterConfig{Experts: 3, TopK: 1}})
	m := b.Body()
	if _, err := (Config{Targets: []string{"experts.1.up_proj"}}).choose(m.Targets()); err == nil ||
		!strings.Contains(err.Error(), "1 of the 3 experts") {
		t.Errorf("error %v", err)
	}
	if got, err := (Config{Targets: []string{"up_proj"}}).choose(m.Targets()); err != nil || len(got) != 1 ||
		len(got[0].Modules) != 3 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestMergeRefusesASumThatTheWeightCannotHold and values that are not finite.
func TestMergeRefusesASumThatTheWeightCannotHold(t *testing.T) {
	for _, bad := range []float64{math.MaxFloat32, math.Inf(1), math.NaN()} {
		m := body("a.q")
		a, err := New(m, Config{Rank: 2}, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Params() {
			for i := range p.Tensor.Float32s() {
				p.Tensor.Float32s()[i] = float32(bad)
			}
		}
		if err := a.Merge(); err == nil || !strings.Contains(err.Error(), "a.q.weight") {
			t.Errorf("%v: error %v", bad, err)
		}
		if _, err := a.Named(); (err != nil) != (bad-bad != 0) {
			t.Errorf("%v: saving gives %v", bad, err)
		}
	}
}

// What an adapter of some layers, or with modules of its own, says is read as PEFT writes it.
func TestLayersAndModulesOfPEFTAreRead(t *testing.T) {
	for layers, want := range map[string][]int{"null": nil, "3": {3}, "[0, 2]": {0, 2}} {
		text := strings.Replace(peft, `"layers_to_transform": null`, `"layers_to_transform": `+layers, 1)
		text = strings.Replace(text, `"modules_to_save": null`, `"modules_to_save": ["lm_head", "norm"]`, 1)
		c, _, err := parse([]byte(text))
		if err != nil || !slices.Equal(c.Layers, want) || !slices.Equal(c.Modules, []string{"lm_head", "norm"}) {
			t.Errorf("%s: %+v, %v", layers, c, err)
		}
	}
	for _, pattern := range []string{`"layers"`, `["layers"]`} {
		text := strings.Replace(peft, `"layers_to_transform": null`, `"layers_to_transform": [0, 2]`, 1)
		text = strings.Replace(text, `"layers_pattern": null`, `"layers_pattern": `+pattern, 1)
		if c, _, err := parse([]byte(text)); err != nil || !slices.Equal(c.Layers, []int{0, 2}) {
			t.Errorf("pattern %s: %+v, %v", pattern, c, err)
		}
	}
}
