package models_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/core/reference"
	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// logits runs a model forward on one row.
func logits(t *testing.T, m *models.Model, ids, positions []int32) []float32 {
	t.Helper()
	n := len(ids)
	c, err := nn.NewContext(autograd.Heap{}, 1, n, 64)
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
	b := data.Batch{B: 1, S: n, IDs: ids, Labels: ids, Positions: positions, Segments: slices.Repeat([]int32{1}, n)}
	if err := prog.Batch.Fill(b, n); err != nil {
		t.Fatal(err)
	}
	if _, err := prog.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(prog.Tensor(out.Logits).Float32s())
}

// TestHalfOfEachHeadRotates leaves only one quarter of each head of queries and keys, in
// turn, and asks whether positions matter. GLM rotates half of a head: the first two
// quarters. A partial_rotary_factor that is applied twice rotates the first alone.
func TestHalfOfEachHeadRotates(t *testing.T) {
	const headDim = 16
	for _, name := range []string{"glm4", "glm4_moe"} {
		for _, selection := range []string{"none", "all"} {
			for quarter, rotates := range []bool{true, true, false, false} {
				m := newModel(t, family(name, with("head_dim", headDim), with("attention_bias", false), with("use_qk_norm", nil)), 1)
				apply(t, m, selection, kernels(t, reference.Kernel))
				for _, p := range m.Params() {
					if strings.HasSuffix(p.Name, "q_proj.weight") || strings.HasSuffix(p.Name, "k_proj.weight") {
						keepQuarter(p.Tensor, headDim, quarter)
					}
				}
				ids := []int32{3, 1, 4, 1, 5}
				near, far := logits(t, m, ids, []int32{0, 1, 2, 3, 4}), logits(t, m, ids, []int32{0, 3, 9, 20, 50})
				if matters := !slices.Equal(near, far); matters != rotates {
					t.Errorf("%s, kernels %s: positions matter to quarter %d of a head: %v, want %v", name, selection, quarter, matters, rotates)
				}
			}
		}
	}
}

// keepQuarter clears all rows of a projection but a quarter of each head.
func keepQuarter(w core.Tensor, headDim, quarter int) {
	width := w.Shape[1]
	for row := range w.Shape[0] {
		if row%headDim/(headDim/4) != quarter {
			clear(w.Float32s()[row*width : (row+1)*width])
		}
	}
}

func TestWindowsAreThoseOfTheFamily(t *testing.T) {
	sliding := []func(map[string]any){with("use_sliding_window", true), with("sliding_window", 2), with("max_window_layers", 3)}
	tests := []struct {
		name, family string
		change       []func(map[string]any)
		reach        int // how far the first token is seen through four layers
	}{
		{"none", "llama", nil, 12},
		{"of no use", "qwen2", []func(map[string]any){with("use_sliding_window", false)}, 12},
		{"in the later layers", "qwen2", sliding, 12},
		{"in all layers", "qwen2", append(slices.Clone(sliding), with("max_window_layers", 0)), 5},
		{"by the types of layers", "qwen3", append(slices.Clone(sliding), with("layer_types", slices.Repeat([]string{"sliding_attention"}, 4))), 5},
		{"of no layer's type", "qwen3", append(slices.Clone(sliding), with("max_window_layers", 0), with("layer_types", slices.Repeat([]string{"full_attention"}, 4))), 12},
		{"in all layers of experts", "qwen3_moe", sliding, 5},
		{"without a switch", "mistral", []func(map[string]any){with("sliding_window", 3)}, 9},
		{"without a switch or a default", "phi3", []func(map[string]any){with("sliding_window", 3)}, 9},
		{"where there are no positions", "smollm3", append(slices.Clone(sliding), with("no_rope_layer_interval", 1)), 5},
		{"none where it is off", "smollm3", []func(map[string]any){with("use_sliding_window", false)}, 12},
		{"without a switch, with experts", "mixtral", []func(map[string]any){with("sliding_window", 3)}, 9},
		{"in every other layer", "gemma2", []func(map[string]any){with("sliding_window", 3)}, 12},
		{"in all layers by type", "gemma2", []func(map[string]any){with("sliding_window", 3),
			with("layer_types", slices.Repeat([]string{"sliding_attention"}, 4))}, 9},
		{"none by default", "phi3", []func(map[string]any){with("sliding_window", nil)}, 12},
		{"taken away", "mistral", []func(map[string]any){func(c map[string]any) { c["sliding_window"] = nil }}, 12},
		{"longer than the row", "mistral", []func(map[string]any){with("sliding_window", nil)}, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.family, func(t *testing.T) {
			m := newModel(t, family(tt.family, append(tt.change, with("num_hidden_layers", 4))...), 1)
			ids, positions := make([]int32, 12), make([]int32, 12)
			for i := range positions {
				positions[i] = int32(i)
			}
			before := logits(t, m, ids, positions)
			ids[0] = 7
			after := logits(t, m, ids, positions)
			v, reach := m.Vocab(), 0
			for i := range ids {
				if !slices.Equal(before[i*v:(i+1)*v], after[i*v:(i+1)*v]) {
					reach = i + 1
				}
			}
			if reach != tt.reach {
				t.Errorf("the first token reaches %d tokens, want %d", reach, tt.reach)
			}
		})
	}
}

// TestNullIsNotTheDefault: a field of null is None in transformers, which takes as many keys as queries then, and what has
// to be switched on is off.
func TestNullIsNotTheDefault(t *testing.T) {
	null := func(name string) func(map[string]any) { return func(c map[string]any) { c[name] = nil } }
	d, err := models.Describe(family("mistral", null("num_key_value_heads")))
	if err != nil || d.Attention.KVHeads != 4 {
		t.Errorf("%d heads of keys, %v, want 4, not mistral's 8", d.Attention.KVHeads, err)
	}
	if d, err = models.Describe(family("gemma2", null("tie_word_embeddings"))); err != nil || d.Tied {
		t.Errorf("the head of gemma2 is tied: %v, %v", d.Tied, err)
	}
	if d, err = models.Describe(family("ernie4_5", null("head_dim"), with("hidden_size", 16))); err != nil || d.Attention.HeadDim != 4 {
		t.Errorf("heads of %d, %v, want 4, not 128", d.Attention.HeadDim, err)
	}
}

// TestRotaryEmbeddingsByLayer: rope_parameters, as transformers 5 writes them, say what rope_theta, rope_scaling and
// rope_local_base_freq say in older files, and each alone is as if the others were at their defaults.
func TestRotaryEmbeddingsByLayer(t *testing.T) {
	linear := map[string]any{"rope_type": "linear", "factor": 8}
	set := func(kind string, theta float64) map[string]any {
		return map[string]any{"rope_type": kind, "rope_theta": theta}
	}
	type change = []func(map[string]any)
	byLayer := func(full, sliding any) func(map[string]any) {
		return with("rope_parameters", map[string]any{"full_attention": full, "sliding_attention": sliding})
	}
	for name, tt := range map[string]struct{ older, newer change }{
		"bases": {change{with("rope_scaling", nil), with("rope_theta", 5e5), with("rope_local_base_freq", 2e4)},
			change{byLayer(set("default", 5e5), set("default", 2e4))}},
		"a stretched one": {change{with("rope_scaling", linear), with("rope_theta", 5e5)},
			change{byLayer(map[string]any{"rope_type": "linear", "factor": 8, "rope_theta": 5e5}, set("default", 1e4))}},
		"no bases":              {change{with("rope_scaling", linear)}, change{byLayer(linear, map[string]any{"rope_type": "default"})}},
		"bases beside":          {change{with("rope_theta", 5e5), with("rope_local_base_freq", 2e4)}, change{with("rope_theta", 5e5), with("rope_local_base_freq", 2e4), byLayer(linear, nil)}},
		"one of them":           {change{with("rope_scaling", nil), with("rope_local_base_freq", 2e4)}, change{byLayer(nil, set("default", 2e4))}},
		"both bases, the same":  {change{with("rope_local_base_freq", 2e4), with("rope_scaling", nil)}, change{with("rope_local_base_freq", 2e4), byLayer(nil, set("default", 2e4))}},
		"none":                  {change{with("rope_scaling", nil)}, change{with("rope_parameters", map[string]any{})}},
		"none, and names of it": {change{with("rope_scaling", nil)}, change{byLayer(nil, nil)}},
	} {
		tables := func(c change) (both [2]nn.RopeTable) {
			d, err := models.Describe(family("gemma3_text", c...))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return [2]nn.RopeTable{*d.Rope(0), *d.Rope(1)} // with a window, and without
		}
		if got, want := tables(append(change{with("rope_scaling", nil)}, tt.newer...)), tables(tt.older); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	d, err := models.Describe(family("gemma3_text", with("rope_scaling", nil), byLayer(nil, linear)))
	if err != nil || d.Rope(0).InvFreq[0] != 1./8 || d.Rope(1).InvFreq[0] != 1 {
		t.Errorf("a stretched window: %v and %v, %v", d.Rope(0), d.Rope(1), err)
	}
}

// TestWhatTransformers5Writes: a configuration that it has read and written again, with all of the rotary embedding in
// rope_parameters and lengths and defaults filled in, describes the same model.
func TestWhatTransformers5Writes(t *testing.T) {
	for _, f := range models.Families() {
		older := f.Small()
		older["rope_theta"] = 5e5
		newer := maps.Clone(older)
		for _, name := range []string{"rope_theta", "rope_scaling"} {
			delete(newer, name)
		}
		rope := map[string]any{"rope_type": "default", "rope_theta": 5e5}
		if scaling, ok := older["rope_scaling"].(map[string]any); ok {
			maps.Copy(rope, scaling)
			if kind, ok := scaling["type"]; ok {
				rope["rope_type"] = kind
			}
		}
		if kind := rope["rope_type"]; kind == "yarn" || kind == "longrope" {
			rope["original_max_position_embeddings"] = cmp.Or(older["original_max_position_embeddings"], older["max_position_embeddings"])
		}
		if part, ok := older["partial_rotary_factor"]; ok {
			rope["partial_rotary_factor"] = part
		}
		newer["rope_parameters"] = rope
		if f.Type == "gemma3_text" {
			newer["rope_parameters"] = map[string]any{"full_attention": rope,
				"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 1e4}}
		}
		newer["dtype"], newer["per_layer_config"] = "bfloat16", nil
		if n, ok := newer["num_experts"]; ok {
			newer["num_local_experts"] = n
			delete(newer, "num_experts")
		}
		describe := func(config map[string]any) (d nn.DecoderConfig, ropes []nn.RopeTable, windows []int) {
			text, err := json.Marshal(config)
			if err == nil {
				d, err = models.Describe(text)
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Type, err)
			}
			for layer := range d.Layers {
				table := d.Attention.Rope
				if d.Rope != nil {
					table = cmp.Or(d.Rope(layer), &nn.RopeTable{})
				}
				ropes, windows = append(ropes, *table), append(windows, d.Window(layer))
			}
			return d, ropes, windows
		}
		a, ropes, windows := describe(older)
		b, ropes5, windows5 := describe(newer)
		if a.Attention.Scale != b.Attention.Scale || !reflect.DeepEqual(ropes, ropes5) || !slices.Equal(windows, windows5) {
			t.Errorf("%s: %v, %v with %v, want %v, %v with %v", f.Type, b.Attention.Scale, windows5, ropes5, a.Attention.Scale, windows, ropes)
		}
	}
}

// TestTheNumberOfExpertsUnderEitherName: transformers 4 calls it num_experts, and 5 writes it as num_local_experts.
func TestTheNumberOfExpertsUnderEitherName(t *testing.T) {
	for name, change := range map[string][]func(map[string]any){
		"the newer": {with("num_experts", nil), with("num_local_experts", 4)},
		"both":      {with("num_local_experts", 4)},
	} {
		m, err := models.Load(folder(t, family("qwen3_moe", change...), named(t, newModel(t, family("qwen3_moe"), 1))), autograd.Heap{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e, _ := m.Experts(1); e.Router.Experts != 4 {
			t.Errorf("%s: %d experts, want 4", name, e.Router.Experts)
		}
	}
}

// transformers: models/ernie4_5_moe/configuration_ernie4_5_moe.py, Ernie4_5_MoeConfig.attribute_map: one number has two names.
func TestTheNumberOfExpertsOfATokenUnderEitherName(t *testing.T) {
	for name, change := range map[string][]func(map[string]any){
		"the usual": {with("moe_k", 3)},
		"the other": {with("moe_k", nil), with("num_experts_per_tok", 3)},
		"both":      {with("moe_k", 3), with("num_experts_per_tok", 3)},
	} {
		if e, _ := newModel(t, family("ernie4_5_moe", change...), 1).Experts(1); e.Router.TopK != 3 {
			t.Errorf("%s: %d experts a token, want 3", name, e.Router.TopK)
		}
	}
}

// withBias gives the experts' correction a value to be found again.
func withBias(t *testing.T, m *models.Model) *nn.Param {
	t.Helper()
	if len(m.Buffers()) != 1 {
		t.Fatalf("%d buffers, want one", len(m.Buffers()))
	}
	b := m.Buffers()[0]
	for i := range b.Tensor.Float32s() {
		b.Tensor.Float32s()[i] = float32(i)/3 + 1e-6 // no value of half precision
	}
	return b
}

func TestTheCorrectionBiasIsKeptAndNotTrained(t *testing.T) {
	m := newModel(t, family("glm4_moe"), 1)
	bias := withBias(t, m)
	want := slices.Clone(bias.Tensor.Float32s())
	stored := named(t, m)
	for i, n := range stored {
		if n.Name != bias.Name {
			half := core.NewTensor(core.BFloat16, n.Tensor.Shape...)
			half.Store(n.Tensor.Float32s(), 0)
			stored[i].Tensor = half
		}
	}
	again := load(t, folder(t, m.RawConfig, stored))
	train(t, again, 3)
	for _, n := range named(t, again) {
		if n.Name != bias.Name {
			continue
		}
		if n.Tensor.DType != core.Float32 || !slices.Equal(n.Tensor.Float32s(), want) {
			t.Errorf("%s is saved as %v %v, want %v", n.Name, n.Tensor.DType, n.Tensor.Float32s(), want)
		}
		return
	}
	t.Errorf("%s is not saved", bias.Name)
}

func TestLayersThatPredictMoreTokensAreIgnored(t *testing.T) {
	m := newModel(t, family("glm4_moe", with("num_nextn_predict_layers", 1)), 1)
	extra := func(name string) []checkpoint.Named {
		return append(named(t, m), checkpoint.Named{Name: name, Tensor: core.NewTensor(core.Float32, 3)})
	}
	for name, want := range map[string]bool{"model.layers.2.eh_proj.weight": true, "model.layers.3.eh_proj.weight": false,
		"model.layers.1.eh_proj.weight": false, "model.layers.22.enorm.weight": false, "layers.2.enorm.weight": false} {
		_, err := models.Load(folder(t, m.RawConfig, extra(name)), autograd.Heap{})
		if ignored := err == nil; ignored != want {
			t.Errorf("%s is ignored: %v, want %v (%v)", name, ignored, want, err)
		}
	}
	none := family("glm4_moe")
	if _, err := models.Load(folder(t, none, extra("model.layers.2.enorm.weight")), autograd.Heap{}); err == nil {
		t.Error("a layer is ignored that the configuration does not speak of")
	}
}

func TestTheBalanceOfExpertsIsSwitchedOn(t *testing.T) {
	loss := func(change ...func(map[string]any)) float64 {
		m := newModel(t, family("qwen3_moe", change...), 1)
		return train(t, m, 1)[0]
	}
	plain := loss()
	if off := loss(with("router_aux_loss_coef", 0.5)); off != plain {
		t.Errorf("loss %v without output_router_logits, want %v", off, plain)
	}
	on, byDefault := loss(with("output_router_logits", true), with("router_aux_loss_coef", 0.5)), loss(with("output_router_logits", true))
	if !(on > byDefault && byDefault > plain) {
		t.Errorf("losses %v with a coefficient of 0.5, %v with the default, %v without", on, byDefault, plain)
	}
}

// TestTheSameWeightsOfTwoFamiliesGiveTheSameLogits: the folders hold one model, once as
// llama and once as qwen2, whose biases are zero.
func TestTheSameWeightsOfTwoFamiliesGiveTheSameLogits(t *testing.T) {
	a := load(t, testdata.Shared(t, "data", "models", "stories260K"))
	b := load(t, testdata.Shared(t, "data", "models", "stories260K-as-qwen2"))
	ids, positions := make([]int32, 40), make([]int32, 40)
	for i := range ids {
		ids[i], positions[i] = int32(i*37%a.Vocab()), int32(i)
	}
	if !slices.Equal(logits(t, a, ids, positions), logits(t, b, ids, positions)) {
		t.Error("the logits differ")
	}
	if len(b.Params()) <= len(a.Params()) {
		t.Errorf("%d parameters as qwen2, %d as llama: where are the biases?", len(b.Params()), len(a.Params()))
	}
}
