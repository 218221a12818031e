package models_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/lora"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// folder writes a model folder.
func folder(t *testing.T, config []byte, tensors []checkpoint.Named) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "config.json", config)
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, dir string) *models.Model {
	t.Helper()
	m, err := models.Load(dir, autograd.Heap{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same fails unless both models have the same parameters, to the bit.
func same(t *testing.T, got, want *models.Model) {
	t.Helper()
	for i, p := range want.Params() {
		if q := got.Params()[i]; q.Name != p.Name || !slices.Equal(q.Tensor.Float32s(), p.Tensor.Float32s()) {
			t.Errorf("%s differs", p.Name)
		}
	}
}

func TestSavedModelLoadsAgain(t *testing.T) {
	for _, name := range types() {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, family(name), 1)
			same(t, load(t, folder(t, m.RawConfig, named(t, m))), m)
		})
	}
}

func TestNamesAreThoseOfTheFamily(t *testing.T) {
	var names []string
	for _, n := range named(t, newModel(t, family("qwen3_moe"), 1)) {
		names = append(names, n.Name)
	}
	for _, want := range []string{"model.embed_tokens.weight", "model.layers.1.self_attn.q_norm.weight", "model.layers.0.mlp.gate_proj.weight",
		"model.layers.1.mlp.gate.weight", "model.layers.1.mlp.experts.3.up_proj.weight", "model.norm.weight", "lm_head.weight"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tensor is called %s: %v", want, names)
		}
	}
	for _, n := range named(t, newModel(t, family("qwen3"), 1)) {
		if n.Name == "lm_head.weight" {
			t.Error("a tied model saves its head a second time")
		}
	}
}

func TestHalfPrecisionKeepsItsDTypeAndItsValues(t *testing.T) {
	for _, dtype := range []core.DType{core.BFloat16, core.Float16} {
		t.Run(dtype.String(), func(t *testing.T) {
			m := newModel(t, family("qwen3_moe"), 1)
			stored := named(t, m)
			for i, n := range stored {
				if strings.HasSuffix(n.Name, "norm.weight") { // mixed, as some files are
					continue
				}
				half := core.NewTensor(dtype, n.Tensor.Shape...)
				half.Store(n.Tensor.Float32s(), 0)
				stored[i].Tensor = half
			}
			again := named(t, load(t, folder(t, m.RawConfig, stored)))
			if len(again) != len(stored) {
				t.Fatalf("%d tensors, want %d", len(again), len(stored))
			}
			for i, n := range again {
				want, got := stored[i], core.NewTensor(n.DType(), n.Tensor.Shape...)
				got.Store(n.Tensor.Float32s(), 0) // as it is written
				if n.Name != want.Name || got.DType != want.Tensor.DType || !slices.Equal(got.Data, want.Tensor.Data) {
					t.Errorf("%s (%s) became %s (%s), or other values", want.Name, want.Tensor.DType, n.Name, got.DType)
				}
			}
		})
	}
}

// TestExpertsInOneTensorAreOneEach: transformers 5 saves those of a layer so on request. They are saved as its other
// files have them.
func TestExpertsInOneTensorAreOneEach(t *testing.T) {
	for _, name := range []string{"qwen3_moe", "glm4_moe", "deepseek_v3"} {
		m := newModel(t, family(name), 1)
		var fused []checkpoint.Named
		values, experts, width := map[string][]float32{}, map[string]int{}, map[string]int{}
		for _, n := range named(t, m) { // in the order of experts, and gate before up
			layer, rest, ok := strings.Cut(n.Name, ".experts.")
			if !ok {
				fused = append(fused, n)
				continue
			}
			end := ".experts.gate_up_proj"
			if strings.HasSuffix(rest, ".down_proj.weight") {
				end = ".experts.down_proj"
				experts[layer]++
			}
			values[layer+end] = append(values[layer+end], n.Tensor.Float32s()...)
			width[layer+end] = n.Tensor.Shape[1]
		}
		for path, v := range values {
			layer, _, _ := strings.Cut(path, ".experts.")
			e, w := experts[layer], width[path]
			fused = append(fused, checkpoint.Named{Name: path, Tensor: core.FromFloat32(v, e, len(v)/e/w, w)})
		}
		again := load(t, folder(t, m.RawConfig, fused))
		same(t, again, m)
		names := func(all []checkpoint.Named) (names []string) {
			for _, n := range all {
				names = append(names, n.Name)
			}
			return names
		}
		if got, want := names(named(t, again)), names(named(t, m)); !slices.Equal(got, want) {
			t.Errorf("%s is saved as %v, want %v", name, got, want)
		}
		twice := append(fused, named(t, m)[slices.IndexFunc(named(t, m), func(n checkpoint.Named) bool {
			return strings.HasSuffix(n.Name, ".experts.2.up_proj.weight")
		})])
		if _, err := models.Load(folder(t, m.RawConfig, twice), autograd.Heap{}); err == nil || !strings.Contains(err.Error(),
			"has no place in this model: model.layers.1.mlp.experts.gate_up_proj") {
			t.Errorf("%s with an expert twice: %v", name, err)
		}
	}
}

func TestShardedModelLoads(t *testing.T) {
	m := newModel(t, family("qwen3_moe"), 1)
	dir, all := t.TempDir(), named(t, m)
	write(t, dir, "config.json", m.RawConfig)
	where := map[string]string{}
	for i, part := range slices.Collect(slices.Chunk(all, (len(all)+2)/3)) {
		name := []string{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"}[i]
		if err := checkpoint.Write(filepath.Join(dir, name), part, nil); err != nil {
			t.Fatal(err)
		}
		for _, n := range part {
			where[n.Name] = name
		}
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": where})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, checkpoint.IndexFile, index)
	same(t, load(t, dir), m)
}

func TestCopiesThatCarryNothingAreIgnored(t *testing.T) {
	m := newModel(t, family("qwen3"), 1)
	extra := append(named(t, m),
		checkpoint.Named{Name: "lm_head.weight", Tensor: tensorOf(t, m, "model.embed_tokens.weight")},
		checkpoint.Named{Name: "model.layers.0.self_attn.rotary_emb.inv_freq", Tensor: core.NewTensor(core.Float32, 3)})
	again := load(t, folder(t, m.RawConfig, extra))
	same(t, again, m)
	if len(named(t, again)) != len(named(t, m)) {
		t.Error("the copies are saved")
	}
}

func tensorOf(t *testing.T, m *models.Model, name string) core.Tensor {
	t.Helper()
	all := named(t, m)
	i := slices.IndexFunc(all, func(n checkpoint.Named) bool { return n.Name == name })
	if i < 0 {
		t.Fatalf("the model has no %s", name)
	}
	return all[i].Tensor
}

// transformers: modeling_utils.py, PreTrainedModel.tie_weights: 4 ties them whatever the files hold, and 5 does not where both
// are there and differ.
func TestAHeadThatIsSaidToBeTheEmbedding(t *testing.T) {
	m := newModel(t, family("qwen3"), 1)
	other := core.FromFloat32(slices.Clone(tensorOf(t, m, "model.embed_tokens.weight").Float32s()), 29, 12)
	other.Float32s()[29*12-1] += 1e-6
	for name, head := range map[string]core.Tensor{"other values": other, "another shape": core.NewTensor(core.Float32, 12, 29),
		"another dtype": core.NewTensor(core.BFloat16, 29, 12)} {
		dir := folder(t, m.RawConfig, append(named(t, m), checkpoint.Named{Name: "lm_head.weight", Tensor: head}))
		_, loading := models.Load(dir, autograd.Heap{})
		set, err := checkpoint.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"loading": loading, "fitting": errors.Join(m.Fits(set), set.Close())} {
			if want := "lm_head.weight and model.embed_tokens.weight of the files differ, but tie_word_embeddings"; err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v, want an error with %q", name, what, err, want)
			}
		}
	}
}

func TestLoadNamesEveryTensorThatDoesNotFit(t *testing.T) {
	config := family("qwen3_moe")
	all := named(t, newModel(t, config, 1))
	without := func(names ...string) []checkpoint.Named {
		return slices.DeleteFunc(slices.Clone(all), func(n checkpoint.Named) bool { return slices.Contains(names, n.Name) })
	}
	tensor := func(name string, dtype core.DType, shape ...int) checkpoint.Named {
		return checkpoint.Named{Name: name, Tensor: core.NewTensor(dtype, shape...)}
	}
	tests := []struct {
		name    string
		tensors []checkpoint.Named
		want    []string
	}{
		{"missing", without("model.norm.weight", "model.layers.1.mlp.experts.2.up_proj.weight"),
			[]string{"2 tensors are missing from the files", "model.norm.weight", "model.layers.1.mlp.experts.2.up_proj.weight"}},
		{"extra", append(slices.Clone(all), tensor("model.layers.7.mlp.gate.weight", core.Float32, 2), tensor("a.bias", core.Float32, 1)),
			[]string{"2 tensors of the files have no place in this model: a.bias, model.layers.7.mlp.gate.weight"}},
		{"another shape", append(without("model.norm.weight", "lm_head.weight"), tensor("model.norm.weight", core.Float32, 13), tensor("lm_head.weight", core.Float32, 12, 29)),
			[]string{"2 tensors do not fit", "model.norm.weight is [13], want [12]", "lm_head.weight is [12 29], want [29 12]"}},
		{"another dtype", append(without("model.norm.weight"), tensor("model.norm.weight", core.Int64, 12)),
			[]string{"model.norm.weight is int64; supported: float32, bfloat16, float16"}},
		{"everything at once", append(without("model.norm.weight", "lm_head.weight"), tensor("lm_head.weight", core.Float32, 1), tensor("x", core.Float32, 1)),
			[]string{"1 tensor is missing from the files: model.norm.weight", "no place in this model: x", "lm_head.weight is [1]"}},
		{"a head", without("lm_head.weight"), []string{"1 tensor is missing from the files: lm_head.weight; a model that uses its embedding",
			"tie_word_embeddings in config.json"}},
		{"nothing of it", []checkpoint.Named{tensor("x", core.Float32, 1)}, []string{"and", "more", "no place in this model: x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, config, tt.tensors)
			_, err := models.Load(dir, autograd.Heap{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tt.want, dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestAFolderThatHoldsNoModelIsRefused(t *testing.T) {
	config := family("llama")
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"empty", nil, "has no config.json"},
		{"an adapter", map[string]string{lora.ConfigFile: "{}"}, "has an adapter and no config.json; give the folder of its model as the model"},
		{"no weights", map[string]string{"config.json": string(config)}, "no weights in"},
		{"unknown type", map[string]string{"config.json": string(family("mamba"))}, `model_type "mamba" is not supported`},
		// transformers: modeling_utils.py, PreTrainedModel.from_pretrained, reads that file
		{"weights of another name", map[string]string{"config.json": string(family("llama", with("transformers_weights", "ema.safetensors"))),
			checkpoint.SingleFile: "", "ema.safetensors": ""}, `transformers_weights "ema.safetensors" is not supported`},
		{"a truncated file", map[string]string{"config.json": string(config), checkpoint.SingleFile: "\xff\xff\x00\x00\x00\x00\x00\x00{"}, checkpoint.SingleFile},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				write(t, dir, name, []byte(text))
			}
			if _, err := models.Load(dir, autograd.Heap{}); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want one with %q and the folder", err, tt.want)
			}
		})
	}
}

func TestALoadOfNothingSaysWhatIsMissing(t *testing.T) {
	if _, err := models.Load("", autograd.Heap{}); err == nil || !strings.Contains(err.Error(), "folder is empty; name a Hugging Face") {
		t.Errorf("no folder: error %v", err)
	}
	dir := folder(t, family("llama"), nil)
	for name, load := range map[string]func(string, core.Memory, models.LoadOptions) (*models.Model, error){
		"all": models.LoadWith, "shape": models.Shape,
	} {
		_, err := load(dir, nil, models.LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), "there is no memory for parameters: pass one of transport.NewMemory") {
			t.Errorf("%s without a memory: error %v", name, err)
		}
	}
}

func TestAConfigurationFarLargerThanItsFilesIsRefusedAtOnce(t *testing.T) {
	const billion, apart, many = 1_000_000_000, " bytes or more, as float32, but the files hold ", " tensors or more, as float32, but the files hold "
	// The least of everything: all that such a model has many of is layers.
	thin := []func(map[string]any){with("vocab_size", 1), with("hidden_size", 1), with("intermediate_size", 1), with("num_attention_heads", 1),
		with("num_key_value_heads", 1), with("head_dim", 2), with("attention_bias", false), with("mlp_bias", false)}
	tests := []struct {
		name, family string
		change       []func(map[string]any)
		want         string
	}{
		{"layers", "llama", []func(map[string]any){with("num_hidden_layers", billion)}, many},
		{"thin layers", "llama", append(thin, with("num_hidden_layers", billion)), many},
		{"width", "qwen3", []func(map[string]any){with("hidden_size", billion/10)}, apart},
		{"vocabulary", "qwen3", []func(map[string]any){with("vocab_size", billion)}, apart},
		{"experts", "qwen3_moe", []func(map[string]any){with("num_experts", 1<<12), with("moe_intermediate_size", billion)}, apart},
		{"routed experts", "glm4_moe", []func(map[string]any){with("n_routed_experts", 1<<12), with("moe_intermediate_size", billion)}, apart},
		{"shared experts", "glm4_moe", []func(map[string]any){with("n_shared_experts", 1<<12), with("moe_intermediate_size", 1<<40), with("first_k_dense_replace", 0)}, apart},
		{"predicted layers", "glm4_moe", []func(map[string]any){with("num_nextn_predict_layers", billion), with("num_hidden_layers", billion)}, many},
		{"packed width", "glm4", []func(map[string]any){with("intermediate_size", 1<<62)}, "no memory can hold it"},
		{"windowed layers", "mistral", append(thin, with("num_hidden_layers", billion), with("sliding_window", billion)), many},
		{"heads", "qwen2", []func(map[string]any){with("num_attention_heads", 1<<60), with("num_key_value_heads", 1<<60)}, "num_attention_heads is"},
		{"more bytes than there are", "llama", []func(map[string]any){with("hidden_size", 1<<40), with("vocab_size", 1<<40)}, "no memory can hold it"},
		{"head size", "llama", []func(map[string]any){with("head_dim", 1<<60)}, "head_dim is 1152921504606846976"},
		{"head size that follows from the width", "llama", []func(map[string]any){with("head_dim", nil), with("hidden_size", billion)}, "head_dim is 250000000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, family(tt.family, tt.change...), named(t, newModel(t, family(tt.family), 1)))
			mem := &counted{}
			_, err := models.Load(dir, mem)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want one with %q and the folder", err, tt.want)
			}
			if err != nil && regexp.MustCompile(` of (more than )?0 `).MatchString(err.Error()) {
				t.Errorf("error %v says nothing", err)
			}
			if mem.live != 0 || mem.total > 8<<20 {
				t.Errorf("%d allocations are left; %d bytes were allocated for files of a few kilobytes", mem.live, mem.total)
			}
		})
	}
}

// counted counts the allocations that were not given back, and the bytes of all.
type counted struct{ live, total int }

func (c *counted) Alloc(n int) ([]byte, error) {
	c.live++
	c.total += n
	return autograd.Heap{}.Alloc(n)
}

func (c *counted) Free([]byte) { c.live-- }

func TestALoadThatFailsGivesItsMemoryBack(t *testing.T) {
	mem := &counted{}
	if _, err := models.Load(folder(t, family("llama"), nil), mem); err == nil || mem.live != 0 {
		t.Errorf("%d allocations are left after %v", mem.live, err)
	}
	m := newModel(t, family("llama"), 1)
	loaded, err := models.Load(folder(t, m.RawConfig, named(t, m)), mem)
	if err != nil || mem.live == 0 {
		t.Fatalf("%d allocations, %v", mem.live, err)
	}
	if loaded.Free(); mem.live != 0 {
		t.Errorf("%d allocations are left", mem.live)
	}
}

// named returns what a model would save.
func named(t *testing.T, m *models.Model) []checkpoint.Named {
	t.Helper()
	out, err := m.Named()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSavingTakesNoMemoryForTheWeights, also where they are stored in half precision.
func TestSavingTakesNoMemoryForTheWeights(t *testing.T) {
	m := newModel(t, family("llama", with("torch_dtype", "bfloat16")), 1)
	half := named(t, m)
	for i := range half {
		half[i].As = core.BFloat16
	}
	m = load(t, folder(t, m.RawConfig, half))
	in := func(t core.Tensor) bool {
		return slices.ContainsFunc(m.Params(), func(p *nn.Param) bool {
			from := uintptr(unsafe.Pointer(&p.Tensor.Data[0]))
			at := uintptr(unsafe.Pointer(&t.Data[0]))
			return from <= at && at < from+uintptr(len(p.Tensor.Data))
		})
	}
	for _, n := range named(t, m) {
		if n.DType() != core.BFloat16 || !in(n.Tensor) {
			t.Errorf("%s is %s, and the model's own memory: %v", n.Name, n.DType(), in(n.Tensor))
		}
	}
}

func TestSavingRefusesWhatItCannotHold(t *testing.T) {
	m := newModel(t, family("qwen3"), 1)
	half := named(t, m)
	for i, n := range half {
		half[i].Tensor = core.NewTensor(core.Float16, n.Tensor.Shape...)
		half[i].Tensor.Store(n.Tensor.Float32s(), 0)
	}
	for value, want := range map[float64]string{65519: "", math.Inf(-1): "not finite", math.NaN(): "not finite"} {
		m := load(t, folder(t, m.RawConfig, half))
		p := m.Params()[3]
		p.Tensor.Float32s()[5] = float32(value)
		_, err := m.Named()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), p.Name)) {
			t.Errorf("%g: %v, want %q and the name %s", value, err, want, p.Name)
		}
	}
}
