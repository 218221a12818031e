package models_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// stored writes a model folder of random weights, its matrices in dtype.
func stored(t *testing.T, name string, dtype core.DType, change ...func(map[string]any)) string {
	t.Helper()
	m := newModel(t, family(name, change...), 1)
	tensors := named(t, m)
	for i, n := range tensors {
		if len(n.Tensor.Shape) > 1 {
			tensors[i].Tensor = core.NewTensor(dtype, n.Tensor.Shape...)
			tensors[i].Tensor.Store(n.Tensor.Float32s(), 0)
		}
	}
	return folder(t, m.RawConfig, tensors)
}

// everyExpert makes a sparse model choose all of its experts for every token.
func everyExpert(c map[string]any) {
	for _, key := range []string{"num_experts", "n_routed_experts"} {
		if n, ok := c[key]; ok {
			c["num_experts_per_tok"], c["n_group"], c["topk_group"] = n, 1, 1
		}
	}
}

func loadWith(t *testing.T, dir string, o models.LoadOptions) *models.Model {
	t.Helper()
	m, err := models.LoadWith(dir, autograd.Heap{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scatter gives the adapters random numbers, as if they had been trained.
func scatter(m *models.Model) { scatterFrom(m, 8) }

func scatterFrom(m *models.Model, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, p := range m.Trainable() {
		for i := range p.Tensor.Float32s() {
			p.Tensor.Float32s()[i] = 0.3 * float32(rng.NormFloat64())
		}
	}
}

// saveAdapter writes an adapter's folder.
func saveAdapter(t *testing.T, m *models.Model) string {
	t.Helper()
	s, err := m.Saved()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, s.ConfigFile, s.Config)
	if err := checkpoint.Write(filepath.Join(dir, s.WeightsFile), s.Weights, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// evaluate returns the logits and the loss of a batch.
func evaluate(t *testing.T, m *models.Model) (logits []float32, loss float64) {
	t.Helper()
	c, err := nn.NewContext(autograd.Heap{}, rows, length, length)
	if err != nil {
		t.Fatal(err)
	}
	out := m.Forward(c)
	out.Logits.Keep()
	p, err := m.Compile(c, out.Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := batch(rand.New(rand.NewPCG(2, 0)), m.Vocab())
	if err := p.Batch.Fill(b, b.Targets()); err != nil {
		t.Fatal(err)
	}
	if loss, err = p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(p.Tensor(out.Logits).Float32s()), loss
}

// distance is the largest difference, relative to the largest element.
func distance(a, b []float32) float64 {
	var diff, scale float64
	for i := range a {
		diff, scale = math.Max(diff, math.Abs(float64(a[i])-float64(b[i]))), math.Max(scale, math.Abs(float64(b[i])))
	}
	return diff / scale
}

// TestFreshAdaptersChangeNoLogit compares bits with the model without adapters, whose
// weights are the same numbers in float32.
func TestFreshAdaptersChangeNoLogit(t *testing.T) {
	for _, name := range types() {
		for _, dtype := range []core.DType{core.Float32, core.BFloat16, core.Float16} {
			t.Run(name+" "+dtype.String(), func(t *testing.T) {
				dir := stored(t, name, dtype)
				want, _ := evaluate(t, load(t, dir))
				m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 3, Dropout: 0.5}})
				if got, _ := evaluate(t, m); !slices.Equal(got, want) {
					t.Errorf("the logits differ, by %.3g", distance(got, want))
				}
				scatter(m)
				if got, _ := evaluate(t, m); slices.Equal(got, want) {
					t.Error("trained adapters change nothing either")
				}
			})
		}
	}
}

// TestFrozenMatricesKeepTheDTypeOfTheFiles, and small vectors are float32.
func TestFrozenMatricesKeepTheDTypeOfTheFiles(t *testing.T) {
	for _, o := range []models.LoadOptions{{Frozen: true}, {LoRA: lora.Config{Rank: 2}}} {
		m := loadWith(t, stored(t, "qwen3_moe", core.BFloat16), o)
		for _, p := range m.Params() {
			want := core.BFloat16
			if !p.Frozen || len(p.Tensor.Shape) < 2 {
				want = core.Float32
			}
			if p.Tensor.DType != want {
				t.Errorf("%s is %s, want %s", p.Name, p.Tensor.DType, want)
			}
		}
		for _, s := range m.Sites() {
			if w := s.Facts.WeightDType; s.Op == core.LinearCrossEntropy && w != core.BFloat16 || s.Op == core.RMSNorm && w != core.Float32 {
				t.Errorf("%s says that its weights are %s", s.Path, w)
			}
			if weights := s.Facts.WeightDType != core.InvalidDType; s.Facts.Frozen != weights {
				t.Errorf("%s has weights: %v, frozen: %v", s.Path, weights, s.Facts.Frozen)
			}
		}
	}
}

// TestAdaptersHaveTheNamesAndShapesOfPEFT lists what PEFT 0.18 calls them.
func TestAdaptersHaveTheNamesAndShapesOfPEFT(t *testing.T) {
	tests := []struct {
		model   string
		targets []string
		count   int // of tensors
		want    map[string]core.Shape
	}{
		{"llama", nil, 2 * 2 * 7, map[string]core.Shape{
			"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": {3, 12},
			"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": {24, 3},
			"base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight": {12, 3},
			"base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight": {3, 24},
			"base_model.model.model.layers.1.mlp.down_proj.lora_A.weight":    {3, 20},
			"base_model.model.model.layers.1.mlp.down_proj.lora_B.weight":    {12, 3},
		}},
		{"llama", []string{"q_proj", "v_proj"}, 2 * 2 * 2, map[string]core.Shape{
			"base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight": {3, 12},
		}},
		{"llama", []string{"layers.1.mlp.up_proj"}, 2, map[string]core.Shape{
			"base_model.model.model.layers.1.mlp.up_proj.lora_B.weight": {20, 3},
		}},
		{"qwen3_moe", nil, 2 * (2*4 + 3 + 1 + 4*3), map[string]core.Shape{
			"base_model.model.model.layers.0.mlp.gate_proj.lora_A.weight":           {3, 12},
			"base_model.model.model.layers.1.mlp.gate.lora_B.weight":                {4, 3},
			"base_model.model.model.layers.1.mlp.experts.3.gate_proj.lora_A.weight": {3, 12},
			"base_model.model.model.layers.1.mlp.experts.3.up_proj.lora_B.weight":   {10, 3},
			"base_model.model.model.layers.1.mlp.experts.0.down_proj.lora_A.weight": {3, 10},
			"base_model.model.model.layers.1.mlp.experts.0.down_proj.lora_B.weight": {12, 3},
		}},
		{"mixtral", nil, 2 * 2 * (4 + 1 + 4*3), map[string]core.Shape{
			"base_model.model.model.layers.1.block_sparse_moe.gate.lora_B.weight":         {4, 3},
			"base_model.model.model.layers.1.block_sparse_moe.experts.3.w1.lora_A.weight": {3, 12},
			"base_model.model.model.layers.1.block_sparse_moe.experts.3.w2.lora_B.weight": {12, 3},
		}},
		// Gate and up are one linear layer there, and so have one adapter.
		{"glm4", nil, 2 * 2 * 6, map[string]core.Shape{
			"base_model.model.model.layers.1.mlp.gate_up_proj.lora_A.weight": {3, 12},
			"base_model.model.model.layers.1.mlp.gate_up_proj.lora_B.weight": {40, 3},
		}},
		{"phi3", nil, 2 * 2 * 4, map[string]core.Shape{
			"base_model.model.model.layers.0.self_attn.qkv_proj.lora_A.weight": {3, 12},
			"base_model.model.model.layers.0.self_attn.qkv_proj.lora_B.weight": {64, 3},
			"base_model.model.model.layers.1.mlp.gate_up_proj.lora_B.weight":   {40, 3},
		}},
		// Its router is no linear layer.
		{"glm4_moe", nil, 2 * (2*4 + 3 + 8*3 + 3), map[string]core.Shape{
			"base_model.model.model.layers.1.mlp.experts.3.up_proj.lora_B.weight":        {10, 3},
			"base_model.model.model.layers.1.mlp.shared_experts.down_proj.lora_B.weight": {12, 3},
		}},
		// Its head is its embedding, which takes no adapter.
		{"qwen2", nil, 2 * 2 * 7, map[string]core.Shape{
			"base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight": {3, 12},
		}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.model, tt.targets), func(t *testing.T) {
			m := loadWith(t, stored(t, tt.model, core.Float32), models.LoadOptions{LoRA: lora.Config{Rank: 3, Targets: tt.targets}})
			f, err := checkpoint.Open(filepath.Join(saveAdapter(t, m), lora.WeightsFile))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if names := f.Names(); len(names) != tt.count {
				t.Errorf("%d tensors, want %d: %v", len(names), tt.count, names)
			}
			for name, want := range tt.want {
				got, shape, ok := f.Lookup(name)
				if !ok || !shape.Equal(want) || got != core.Float32 {
					t.Errorf("%s: %v %v %v, want %v", name, ok, got, shape, want)
				}
			}
		})
	}
}

// TestPEFTAdaptsTheLayersThatAFolderNames: its rule, as it was until issue 3016 of 2026, applied to what is saved, gives the modules
// that have adapters. Without layers_pattern the number of an expert would be that of a layer.
func TestPEFTAdaptsTheLayersThatAFolderNames(t *testing.T) {
	dir := stored(t, "qwen3_moe", core.Float32)
	c := lora.Config{Rank: 2, Layers: []int{1}, Targets: []string{"v_proj", "down_proj"}}
	saved := saveAdapter(t, loadWith(t, dir, models.LoadOptions{LoRA: c}))
	var said struct {
		Targets []string `json:"target_modules"`
		Layers  []int    `json:"layers_to_transform"`
		Pattern string   `json:"layers_pattern"`
	}
	text, err := os.ReadFile(filepath.Join(saved, lora.ConfigFile))
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil {
		t.Fatal(err)
	}
	if said.Pattern == "" {
		said.Pattern = "[^.]*"
	}
	number := regexp.MustCompile(`^.*\.` + said.Pattern + `\.(\d+)\.`)
	var want []string
	for _, n := range named(t, loadWith(t, dir, models.LoadOptions{Frozen: true})) {
		module, _ := strings.CutSuffix(n.Name, ".weight")
		target := slices.ContainsFunc(said.Targets, func(name string) bool { return strings.HasSuffix(module, "."+name) })
		at := number.FindStringSubmatch(module)
		if target && at != nil && slices.Contains(said.Layers, int(at[1][0]-'0')) {
			want = append(want, "base_model.model."+module+".lora_A.weight", "base_model.model."+module+".lora_B.weight")
		}
	}
	f, err := checkpoint.Open(filepath.Join(saved, lora.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(f.Names())); !slices.Equal(got, want) || len(got) != 2*(1+4) {
		t.Errorf("tensors %q; PEFT would look for %q", got, want)
	}
	if again := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saved}}); !slices.Equal(
		again.Adapter.Config().Layers, c.Layers) {
		t.Errorf("read again: layers %v", again.Adapter.Config().Layers)
	}
}

// TestAPatternStandsForTheLayersThatTheFileHas: target_modules as an expression, and what exclude_modules leaves out.
func TestAPatternStandsForTheLayersThatTheFileHas(t *testing.T) {
	dir := stored(t, "qwen3_moe", core.Float32)
	first := []string{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj", "down_proj"}
	m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2, Targets: first}})
	scatter(m)
	want, _ := evaluate(t, m)
	for _, said := range []map[string]any{
		{"target_modules": `(?=model\.).*0\.self_attn\.[qv]_proj|.*\.down_proj`}, // which regexp does not know
		{"target_modules": []string{"q_proj", "v_proj", "down_proj"}, "exclude_modules": `model\.layers\.1\.self_attn.*`},
		{"target_modules": "all-linear", "exclude_modules": []string{"k_proj", "o_proj"}},
	} {
		saved := saveAdapter(t, m)
		path := filepath.Join(saved, lora.ConfigFile)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		maps.Copy(fields, said)
		if text, err = json.Marshal(fields); err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		again := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saved}})
		if got, _ := evaluate(t, again); !slices.Equal(got, want) {
			t.Errorf("%v: the logits differ, by %.3g", said, distance(got, want))
		}
		once := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saveAdapter(t, again)}}) // with a list now
		if got, _ := evaluate(t, once); !slices.Equal(got, want) {
			t.Errorf("%v: the logits differ once it was saved, by %.3g", said, distance(got, want))
		}
	}
}

// TestAHeadOfItsOwnNeedsAModelThatHasOne: PEFT saves one of a model whose head is its embedding where that alone was trained.
func TestAHeadOfItsOwnNeedsAModelThatHasOne(t *testing.T) {
	dir := stored(t, "qwen2", core.Float32)
	saved := saveAdapter(t, loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2},
		Train: models.Selection{Modules: []string{"embed_tokens"}}}))
	f, err := checkpoint.Open(filepath.Join(saved, lora.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Named
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if name != "base_model.model.model.embed_tokens.weight" {
			tensors = append(tensors, checkpoint.Named{Name: name, Tensor: x})
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(filepath.Join(saved, lora.WeightsFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	_, err = models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Adapter: saved}})
	if want := "has base_model.model.lm_head.weight and no base_model.model.model.embed_tokens.weight"; err == nil ||
		!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tie_word_embeddings") {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestASavedAdapterLoadsAgain(t *testing.T) {
	for _, name := range types() {
		dir := stored(t, name, core.BFloat16)
		m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 3, Alpha: 5, Dropout: 0.1, RSLoRA: true}})
		scatter(m)
		want, _ := evaluate(t, m)
		again := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Adapter: saveAdapter(t, m)}})
		if got, _ := evaluate(t, again); !slices.Equal(got, want) {
			t.Errorf("%s: the logits differ, by %.3g", name, distance(got, want))
		}
		if c := again.Adapter.Config(); c.Rank != 3 || c.Alpha != 5 || c.Dropout != 0.1 || !c.RSLoRA {
			t.Errorf("%s: the configuration became %+v", name, c)
		}
	}
}

// TestAMergedModelGivesWhatItGivesWithItsAdapter: the sums are rounded to the weights' dtype,
// once more than without merging, and those of float32 are the same numbers in another order.
// How far rounding goes depends on the numbers, hence the median of three adapters. In half
// precision it is enough for a token to get another expert, so all of them are chosen.
func TestAMergedModelGivesWhatItGivesWithItsAdapter(t *testing.T) {
	for _, name := range types() {
		for dtype, limit := range map[core.DType]float64{core.Float32: 0x1p-19, core.Float16: 0x1p-8, core.BFloat16: 0x1p-5} {
			t.Run(name+" "+dtype.String(), func(t *testing.T) {
				dir := stored(t, name, dtype, func(c map[string]any) {
					if dtype != core.Float32 {
						everyExpert(c)
					}
				})
				var logits, losses []float64
				for seed := range uint64(3) {
					m := loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 3, Alpha: 1}})
					scatterFrom(m, 8+seed)
					d, loss := merged(t, m, named(t, load(t, dir)))
					logits, losses = append(logits, d), append(losses, loss)
				}
				slices.Sort(logits)
				slices.Sort(losses)
				if !(logits[1] < limit) || !(losses[1] < limit) {
					t.Errorf("logits differ by %.3g, losses by %.3g; limit %.3g", logits, losses, limit)
				}
			})
		}
	}
}

// merged returns how far the model moves by being merged and saved, which must keep the
// names and dtypes that the model had before.
func merged(t *testing.T, m *models.Model, before []checkpoint.Named) (logits, loss float64) {
	t.Helper()
	want, wantLoss := evaluate(t, m)
	if err := m.Merge(); err != nil {
		t.Fatal(err)
	}
	s, err := m.Saved()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range s.Weights {
		if n.Name != before[i].Name || n.DType() != before[i].DType() {
			t.Errorf("%s is %s, was %s %s", n.Name, n.DType(), before[i].Name, before[i].DType())
		}
	}
	got, gotLoss := evaluate(t, load(t, folder(t, s.Config, s.Weights)))
	return distance(got, want), math.Abs(gotLoss - wantLoss)
}

// TestQuantisedBasesAreNearTheFilesAndKeepWhatTheyAreNotFor: the embedding, the head and the router. Weights are as near as
// the numbers that there are for them, half of whose widest gap is a part of the largest weight, and all else follows from
// what they are then.
func TestQuantisedBasesAreNearTheFilesAndKeepWhatTheyAreNotFor(t *testing.T) {
	for _, base := range []struct {
		config lora.Config
		option string
		part   float64
	}{
		{lora.Config{Rank: 2, BaseInt8: true}, "lora.Config.BaseInt8", 1.01 / 254},
		{lora.Config{Rank: 2, BaseNF4: true}, "lora.Config.BaseNF4", 0.16}, // with scales that are rounded, too
	} {
		for _, name := range types() {
			dir := stored(t, name, core.BFloat16, wholeBlocks)
			wide := load(t, widened(t, loadWith(t, dir, models.LoadOptions{LoRA: base.config})))
			for i, n := range named(t, load(t, dir)) {
				from, to := wideOf(n.Tensor), wideOf(named(t, wide)[i].Tensor)
				largest := float64(max(slices.Max(from), -slices.Min(from)))
				for j, v := range from {
					if d := math.Abs(float64(to[j] - v)); !(d <= base.part*largest) {
						t.Fatalf("%s: %s[%d] is %v, and %v in the file", name, n.Name, j, to[j], v)
					}
				}
			}
			want, _ := evaluate(t, wide)
			quantisedBase(t, name, dir, want, base.config, base.option)
		}
	}
}

// wideOf returns the elements of a tensor.
func wideOf(x core.Tensor) []float32 {
	v := make([]float32, x.Elems())
	x.Load(v, 0)
	return v
}

// widened writes a model folder with the numbers that a model's frozen weights stand for, in float32.
func widened(t *testing.T, m *models.Model) string {
	t.Helper()
	var all []checkpoint.Named
	for _, p := range append(m.Params(), m.Buffers()...) {
		for _, e := range p.Entries {
			if strings.Contains(e.Name, ".lora_") {
				continue
			}
			v := make([]float32, e.Shape.Elems())
			for cols, i := e.Shape[len(e.Shape)-1], 0; i < len(v); i += cols {
				p.Load(v[i:i+cols], e.Offset+i)
			}
			all = append(all, checkpoint.Named{Name: e.Name, Tensor: core.FromFloat32(v, e.Shape...)})
		}
	}
	return folder(t, m.RawConfig, all)
}

// wholeBlocks gives experts sizes that NF4 can hold.
func wholeBlocks(c map[string]any) {
	if _, ok := c["moe_intermediate_size"]; ok {
		c["moe_intermediate_size"] = 16
	}
}

// quantisedBase loads a folder with a quantised base and compares the logits.
func quantisedBase(t *testing.T, name, dir string, want []float32, c lora.Config, option string) {
	t.Helper()
	m := loadWith(t, dir, models.LoadOptions{LoRA: c})
	for _, p := range m.Params() {
		apart := strings.Contains(p.Name, "embed") || strings.Contains(p.Name, "head") ||
			strings.HasSuffix(p.Name, ".gate.weight") || strings.HasSuffix(p.Name, ".router.weight") || strings.HasSuffix(p.Name, "_bias")
		holds := c.Base() != core.NF4 || p.HoldsNF4()
		if want := p.Frozen && len(p.Tensor.Shape) > 1 && !apart && holds; (p.Tensor.DType == c.Base()) != want {
			t.Errorf("%s: %s is %s", name, p.Name, p.Tensor.DType)
		}
	}
	if got, _ := evaluate(t, m); !(distance(got, want) < 1e-5) {
		t.Errorf("%s: the logits differ by %.3g", name, distance(got, want))
	}
	if _, err := m.Named(); err == nil || !strings.Contains(err.Error(), option) {
		t.Errorf("%s: saved, %v", name, err)
	}
	if err := m.Merge(); err == nil || !strings.Contains(err.Error(), option) {
		t.Errorf("%s: merged, %v", name, err)
	}
}

// TestKernelsApplyUnderLoRA trains with and without kernels, the references, on half
// precision: the same sites get one as without LoRA, except experts that the kernel does not
// compute as they are, and larger sites around layers with adapters.
func TestKernelsApplyUnderLoRA(t *testing.T) {
	tests := map[string]struct {
		config    lora.Config
		attention bool   // adapters on its layers alone
		plain     string // the reason of the experts
	}{
		"attention":      {lora.Config{Rank: 2}, true, ""},
		"all linear":     {lora.Config{Rank: 2, Dropout: 0.2}, false, "its experts carry adapters"},
		"int8":           {lora.Config{Rank: 2, BaseInt8: true}, true, "its weights are int8"},
		"nf4":            {lora.Config{Rank: 2, BaseNF4: true}, true, ""}, // its experts are no whole blocks
		"int8 and alike": {lora.Config{Rank: 2, BaseInt8: true}, false, "its experts carry adapters"},
	}
	for what, tt := range tests {
		for _, name := range types() {
			t.Run(what+" "+name, func(t *testing.T) {
				dir := stored(t, name, core.BFloat16)
				o := models.LoadOptions{LoRA: tt.config, Seed: 3}
				for _, layer := range newModel(t, family(name), 1).Targets() {
					if tt.attention && strings.Contains(layer.Name, ".self_attn.") {
						o.LoRA.Targets = append(o.LoRA.Targets, layer.Name)
					}
				}
				whole := map[string]string{} // why sites of the model without adapters stay plain
				for _, site := range newModel(t, family(name), 1).Sites() {
					whole[site.Path] = site.Plain
				}
				plain, fused := loadWith(t, dir, o), loadWith(t, dir, o)
				for _, a := range apply(t, fused, "all", kernels(t, reference.Kernel)).Actions {
					want := whole[a.Site.Path]
					switch {
					case a.Site.Op == core.MoEExperts && want == "":
						want = tt.plain
					case a.Site.Op == core.QKV, a.Site.Op == core.GateUpSwiGLU && !tt.attention:
						want = "its layers carry adapters"
					case a.Site.Op == core.GateUpSwiGLU && tt.config.BaseNF4 && want == "":
						want = "its weights are nf4, which gate_up_swiglu has not"
					}
					if a.Reason != want || (a.Kernel == nil && a.CoveredBy == "") != (want != "") {
						t.Errorf("%s: kernel %v, reason %q; want %q", a.Site.Path, a.Kernel != nil, a.Reason, want)
					}
				}
				before := frozen(plain)
				scatter(plain)
				scatter(fused)
				a, b := train(t, plain, 4), train(t, fused, 4)
				loss, param, worst := farthest(a, b, plain, fused)
				if !(loss <= 1e-5) || !(param <= 1e-3) {
					t.Errorf("losses differ by %.3g, %s by %.3g", loss, worst, param)
				}
				if !slices.Equal(frozen(plain), before) {
					t.Error("a frozen weight has changed")
				}
			})
		}
	}
}

// frozen returns all bytes of the frozen parameters.
func frozen(m *models.Model) []byte {
	var all []byte
	for _, p := range m.Params() {
		if p.Frozen {
			all = append(all, p.Tensor.Data...)
		}
	}
	return all
}

func TestAnAdapterThatDoesNotFitIsRefused(t *testing.T) {
	dir := stored(t, "llama", core.Float32)
	good := func() (string, string) { // the folder, and its adapter_config.json
		d := saveAdapter(t, loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2, Targets: []string{"q_proj", "up_proj"}}}))
		b, err := os.ReadFile(filepath.Join(d, lora.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		return d, string(b)
	}
	for name, tt := range map[string]struct{ old, new, want string }{
		"another rank":       {`"r": 2`, `"r": 3`, "lora_A.weight is [2 12], want [3 12]"},
		"more targets":       {`"q_proj"`, `"q_proj", "k_proj"`, "has no tensor base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight"},
		"fewer targets":      {`"q_proj",`, ``, "4 tensors of adapter_model.safetensors have no place"},
		"a target not there": {`"q_proj"`, `"query"`, `no linear layer is called "query"; the model has down_proj, gate_proj, k_proj`},
		"the head":           {`"q_proj"`, `"lm_head"`, `no linear layer is called "lm_head"`},
	} {
		adapter, config := good()
		if !strings.Contains(config, tt.old) {
			t.Fatalf("%s: nothing to replace in %s", name, config)
		}
		write(t, adapter, lora.ConfigFile, []byte(strings.Replace(config, tt.old, tt.new, 1)))
		_, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), adapter) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
	_, err := models.LoadWith(dir, autograd.Heap{}, models.LoadOptions{LoRA: lora.Config{Adapter: dir}})
	if want := dir + ": it has no adapter_config.json; it must be a folder that"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a model for an adapter: error %v, want one with %q", err, want)
	}
}

// measured is a heap that counts what was taken from it.
type measured struct {
	autograd.Heap
	bytes int
}

func (m *measured) Alloc(n int) ([]byte, error) {
	m.bytes += n
	return m.Heap.Alloc(n)
}

// TestARankThatTheFileLacksCostsNoMemory: adapter_config.json is a few bytes, whatever it says.
func TestARankThatTheFileLacksCostsNoMemory(t *testing.T) {
	dir := stored(t, "llama", core.Float32)
	adapter := saveAdapter(t, loadWith(t, dir, models.LoadOptions{LoRA: lora.Config{Rank: 2}}))
	config, err := os.ReadFile(filepath.Join(adapter, lora.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	load := func(rank string) (int, error) {
		write(t, adapter, lora.ConfigFile, []byte(strings.Replace(string(config), `"r": 2`, `"r": `+rank, 1)))
		var m measured
		_, err := models.LoadWith(dir, &m, models.LoadOptions{LoRA: lora.Config{Adapter: adapter}})
		return m.bytes, err
	}
	fits, err := load("2")
	if err != nil {
		t.Fatal(err)
	}
	if bytes, err := load("65536"); err == nil || !strings.Contains(err.Error(), "want [65536 ") || bytes >= fits {
		t.Errorf("%d bytes were taken, %d where the rank is right; error %v", bytes, fits, err)
	}
}
