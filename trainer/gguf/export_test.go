package gguf_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/gguf"
	"github.com/seed98097648/tune/trainer/models"
)

// TestAFileHasTheWeightsOfTheFolder reads files of every type back: each tensor must be there, under its
// name, with the numbers of the folder to within half a step of the type.
func TestAFileHasTheWeightsOfTheFolder(t *testing.T) {
	dir := small(t, "llama", map[string]any{"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})
	weights, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	for kind, within := range map[string]float64{"f32": 0, "f16": 1.0 / 2048, "bf16": 1.0 / 256, "q8_0": 1.0 / 250,
		"q4_0": 1.0 / 7} {
		f := readFile(t, export(t, dir, kind))
		if len(f.tensors) != len(weights.Names()) {
			t.Errorf("%s: %d tensors, want %d", kind, len(f.tensors), len(weights.Names()))
		}
		for gguf, name := range map[string]string{"token_embd.weight": "model.embed_tokens.weight",
			"output.weight":            "lm_head.weight",
			"blk.1.ffn_down.weight":    "model.layers.1.mlp.down_proj.weight",
			"blk.0.ffn_norm.weight":    "model.layers.0.post_attention_layernorm.weight",
			"blk.0.attn_v.bias":        "model.layers.0.self_attn.v_proj.bias",
			"blk.1.attn_output.weight": "model.layers.1.self_attn.o_proj.weight"} {
			want, err := weights.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			got := f.tensors[gguf]
			if !want.Shape.Equal(got.shape) {
				t.Fatalf("%s: %s is %v, want %v", kind, gguf, got.shape, want.Shape)
			}
			most := 0.0
			for _, v := range want.Float32s() {
				most = max(most, math.Abs(float64(v)))
			}
			within := within
			if len(want.Shape) == 1 {
				within = 0
			}
			for i, v := range got.float32s() {
				if d := math.Abs(float64(v - want.Float32s()[i])); !(d <= within*most) {
					t.Fatalf("%s: %s[%d] is %g, want %g", kind, gguf, i, v, want.Float32s()[i])
				}
			}
		}
	}
}

// TestAnInterruptedExportLeavesNothing: neither the file nor a part of one.
func TestAnInterruptedExportLeavesNothing(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	out := t.TempDir()
	_, err := gguf.Export(ctx, gguf.Options{Model: small(t, "llama", nil), Out: filepath.Join(out, "x.gguf")},
		autograd.Heap{})
	left, readErr := os.ReadDir(out)
	if !errors.Is(err, context.Canceled) || len(left) != 0 || readErr != nil {
		t.Errorf("%v; it has left %v, %v", err, left, readErr)
	}
}

func TestQueriesAndKeysHaveNeighboursThatRotateTogether(t *testing.T) {
	dir := small(t, "llama", nil) // heads of 6
	f := readFile(t, export(t, dir, "f32"))
	weights, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	for gguf, name := range map[string]string{"blk.0.attn_q.weight": "q_proj.weight",
		"blk.0.attn_k.weight": "k_proj.weight", "blk.0.attn_k.bias": "k_proj.bias"} {
		want, err := weights.Tensor("model.layers.0.self_attn." + name)
		if err != nil {
			t.Fatal(err)
		}
		cols := want.Elems() / want.Shape[0]
		got := f.tensors[gguf].float32s()
		for row := range want.Shape[0] {
			from := row/6*6 + []int{0, 3, 1, 4, 2, 5}[row%6]
			if !slices.Equal(got[row*cols:(row+1)*cols], want.Float32s()[from*cols:(from+1)*cols]) {
				t.Errorf("row %d of %s is not row %d", row, gguf, from)
			}
		}
	}
}

func TestExpertsOfALayerAreOneTensor(t *testing.T) {
	dir := small(t, "qwen3_moe", map[string]any{"mlp_only_layers": []int{}})
	f := readFile(t, export(t, dir, "f32"))
	if got := f.tensors["blk.1.ffn_down_exps.weight"].shape; !slices.Equal(got, []int{4, 12, 10}) {
		t.Fatalf("the experts are %v", got)
	}
	weights, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	want, err := weights.Tensor("model.layers.1.mlp.experts.2.up_proj.weight")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.tensors["blk.1.ffn_up_exps.weight"].float32s()[2*120:][:120]; !slices.Equal(got, want.Float32s()) {
		t.Error("expert 2 is another one in the file")
	}
}

func TestPackedExpertsAreTakenApart(t *testing.T) {
	const experts, hidden, inner = 4, 12, 20
	dir := small(t, "gpt_oss", map[string]any{"swiglu_limit": 7})
	f := readFile(t, export(t, dir, "f32"))
	weights, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	folder := func(name string) []float32 {
		v, err := weights.Tensor("model.layers.1.mlp.experts." + name)
		if err != nil {
			t.Fatal(err)
		}
		return v.Float32s()
	}
	both, biases, down := folder("gate_up_proj"), folder("gate_up_proj_bias"), folder("down_proj")
	for e := range experts {
		for i := range inner {
			for half, name := range []string{"gate", "up"} {
				bias := f.tensors["blk.1.ffn_"+name+"_exps.bias"]
				if got, want := bias.float32s()[e*inner+i], biases[(e*inner+i)*2+half]; got != want {
					t.Fatalf("bias %d of %s of expert %d is %g, want %g", i, name, e, got, want)
				}
				for h := range hidden {
					got := f.tensors["blk.1.ffn_"+name+"_exps.weight"].float32s()[(e*inner+i)*hidden+h]
					if want := both[(e*hidden+h)*2*inner+2*i+half]; got != want {
						t.Fatalf("%s of expert %d [%d, %d] is %g, want %g", name, e, i, h, got, want)
					}
				}
			}
			for h := range hidden {
				got := f.tensors["blk.1.ffn_down_exps.weight"].float32s()[(e*hidden+h)*inner+i]
				if want := down[(e*inner+i)*hidden+h]; got != want {
					t.Fatalf("down of expert %d [%d, %d] is %g, want %g", e, h, i, got, want)
				}
			}
		}
	}
	if got := f.tensors["blk.0.ffn_up_exps.weight"].shape; !slices.Equal(got, []int{experts, inner, hidden}) {
		t.Errorf("the experts are %v", got)
	}
}

// TestWithoutATypeAFileKeepsWhatTheFolderHas, whose tensors need not have one type: experts become one tensor, in a
// type that loses nothing of any of them.
func TestWithoutATypeAFileKeepsWhatTheFolderHas(t *testing.T) {
	dir := small(t, "qwen3_moe", map[string]any{"mlp_only_layers": []int{}})
	const experts = "model.layers.1.mlp.experts."
	mixed := map[string]core.DType{"model.embed_tokens.weight": core.Float16, "lm_head.weight": core.Float32,
		experts + "2.up_proj.weight": core.Float16, experts + "0.down_proj.weight": core.Float32}
	narrow(t, dir, func(name string) core.DType { return cmp.Or(mixed[name], core.BFloat16) })
	f := readFile(t, export(t, dir, ""))
	for name, kind := range map[string]uint32{"token_embd.weight": 1, "output.weight": 0, "blk.0.attn_q.weight": 30,
		"blk.1.ffn_up_exps.weight": 0, "blk.1.ffn_down_exps.weight": 0, "blk.0.ffn_up_exps.weight": 30} {
		if got := f.tensors[name].kind; got != kind {
			t.Errorf("%s has type %d, want %d", name, got, kind)
		}
	}
	if f.keys["general.file_type"] != uint32(32) || f.keys["general.architecture"] != "qwen3moe" {
		t.Errorf("keys %v, %v", f.keys["general.file_type"], f.keys["general.architecture"])
	}
}

// gemma is a change of a small model that llama.cpp would compute as it is otherwise.
func gemma(key string, value any) map[string]any {
	c := map[string]any{"query_pre_attn_scalar": 6, "attention_bias": false, "num_hidden_layers": 7,
		"sliding_window_pattern": 6}
	c[key] = value
	return c
}

// gptOSS is a change of a small model that llama.cpp would compute as it is otherwise.
func gptOSS(key string, value any) map[string]any {
	return map[string]any{"swiglu_limit": 7, key: value}
}

func TestWhatLlamaCppComputesOtherwiseIsRefusedByName(t *testing.T) {
	for name, tt := range map[string]struct {
		family string
		change map[string]any
		want   string
	}{
		"weights of experts that are not normalised": {"qwen3_moe", map[string]any{"mlp_only_layers": []int{},
			"norm_topk_prob": false}, "norm_topk_prob is false"},
		"layers without experts": {"qwen3_moe", nil, "layer 0 has no experts"},
		"groups of experts":      {"glm4_moe", nil, "n_group is 4"},
		"heads of another size":  {"qwen2", nil, "head_dim is 6"},
		"biases":                 {"qwen3", map[string]any{"attention_bias": true}, "attention_bias"},
		"biases beside experts": {"qwen3_moe", map[string]any{"mlp_only_layers": []int{}, "attention_bias": true},
			"attention_bias"},
		"a rope of another family": {"glm4",
			map[string]any{"rope_scaling": map[string]any{"rope_type": "linear", "factor": 2}}, "rope_scaling linear"},
		"yarn with other betas": {"qwen3", map[string]any{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4,
			"original_max_position_embeddings": 16, "beta_slow": 0.01}}, "beta_slow 0.01"},
		"biases everywhere":                 {"ernie4_5", nil, "use_bias"},
		"biases of OLMo":                    {"olmo2", map[string]any{"hidden_size": 24}, "attention_bias"},
		"heads of another size than OLMo's": {"olmo2", map[string]any{"attention_bias": false}, "head_dim is 6"},
		"positions in every other layer": {"smollm3", map[string]any{"attention_bias": false, "mlp_bias": false},
			"no_rope_layers"},
		"a scale of its own": {"gemma2", map[string]any{"attention_bias": false}, "query_pre_attn_scalar"},
		"no caps":            {"gemma2", gemma("attn_logit_softcapping", nil), "attn_logit_softcapping"},
		"caps":               {"gemma3_text", gemma("final_logit_softcapping", 5), "final_logit_softcapping"},
		"a head of its own":  {"gemma2", gemma("tie_word_embeddings", false), "tie_word_embeddings"},
		"another local base": {"gemma3_text", gemma("rope_local_base_freq", 5000), "rope_local_base_freq"},
		"windows of its own": {"gemma3_text", gemma("sliding_window_pattern", 2), "sliding_window_pattern"},
		"another clamp":      {"gpt_oss", nil, "swiglu_limit is 1.5"},
		"no biases":          {"gpt_oss", gptOSS("attention_bias", false), "attention_bias is false"},
		"a tied head":        {"gpt_oss", gptOSS("tie_word_embeddings", true), "tie_word_embeddings is true"},
		"no windows": {"gpt_oss", gptOSS("layer_types", []string{"full_attention", "full_attention"}),
			"no layer has a sliding window"},
		"a ramp between no whole dimensions": {"gpt_oss", map[string]any{"swiglu_limit": 7, "max_position_embeddings": 16384,
			"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096,
				"truncate": false}}, "truncate false"},
		"biases of latent attention": {"deepseek_v3", nil, "attention_bias"},
		"another epsilon":            {"deepseek_v3", latent("rms_norm_eps", 1e-5), "rms_norm_eps is 1e-05"},
		"a smaller model's layers":   {"deepseek_v3", latent("num_hidden_layers", 27), "q_lora_rank is 8"},
		"longer scores without yarn": {"deepseek_v3", latent("rope_scaling", map[string]any{"rope_type": "default",
			"factor": 4, "mscale_all_dim": 1}), "mscale_all_dim"},
		"a factor of nothing": {"deepseek_v3", latent("rope_scaling", map[string]any{"rope_type": "yarn", "factor": 1,
			"attention_factor": 1.2}), "attention_factor 1.2"},
		"groups of DeepSeek's experts": {"deepseek_v3", latent("n_group", 4, "topk_group", 2), "n_group is 4"},
		"experts in every other layer": {"ernie4_5_moe", map[string]any{"num_hidden_layers": 5, "moe_layer_interval": 2},
			"layer 2 has none"},
		"a last layer without experts": {"ernie4_5_moe", map[string]any{"num_hidden_layers": 3, "moe_layer_end_index": 1},
			"layer 2 has none"},
		"no experts": {"ernie4_5_moe", map[string]any{"moe_layer_start_index": 2}, "no layer has experts"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.gguf")
			_, err := gguf.Export(t.Context(), gguf.Options{Model: small(t, tt.family, tt.change), Out: out}, autograd.Heap{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "config.json") {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("there is a file all the same")
			}
		})
	}
}

// TestAFileNamesTheRuleByWhichWordsAreCut, whatever the family.
func TestAFileNamesTheRuleByWhichWordsAreCut(t *testing.T) {
	for want, steps := range map[string][]any{"gpt-2": {byteLevel(true)}, "smollm": digitSteps(),
		"deepseek-v3": deepseekSteps()} {
		dir := cutting(t, small(t, "llama", nil), steps)
		if got := readFile(t, export(t, dir, "f32")).keys["tokenizer.ggml.pre"]; got != want {
			t.Errorf("the rule is %v, want %s", got, want)
		}
	}
}

// TestGemmasSpacesAreText: its runs of spaces are added tokens, which llama.cpp would write as they are stored if they
// came as such. Merges into runs that need not grow from the left are refused.
func TestGemmasSpacesAreText(t *testing.T) {
	pieces := func(change func(all map[string]any)) string {
		vocab := map[string]any{"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4}
		for b := range 256 {
			vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
		}
		dir := small(t, "llama", map[string]any{"vocab_size": 400})
		write(t, dir, "tokenizer.json", map[string]any{"added_tokens": []any{}, "model": map[string]any{"type": "BPE",
			"byte_fallback": true, "vocab": vocab, "merges": []any{"a b"}}})
		return retokenised(t, dir, change)
	}
	dir := pieces(asGemma)
	keys := readFile(t, export(t, dir, "f32")).keys
	tokens, kinds := keys["tokenizer.ggml.tokens"].([]any), keys["tokenizer.ggml.token_type"].([]any)
	const normal, user = 1, 4
	for text, want := range map[string]int32{"▁▁": normal, "▁▁▁▁▁": normal, "\n\n": user, "ab": normal} {
		if i := slices.Index(tokens, any(text)); i < 0 || kinds[i] != want {
			t.Errorf("token %d, %q, is of kind %v, want %d", i, text, kinds[i], want)
		}
	}
	if keys["tokenizer.ggml.add_space_prefix"] != false {
		t.Error("a space is put before a text")
	}
	for why, change := range map[string]func(merges []any) []any{
		"two merge before others": func(m []any) []any { return append([]any{[]any{"▁", "▁"}, []any{"\n", "\n"}}, m...) },
		"no run of five": func(m []any) []any {
			return slices.DeleteFunc(m, func(m any) bool {
				whole := m.([]any)[0].(string) + m.([]any)[1].(string)
				return len([]rune(whole)) == 5
			})
		},
		"after another merge": func(m []any) []any { return append([]any{m[len(m)-1]}, m[:len(m)-1]...) },
	} {
		dir := pieces(func(all map[string]any) {
			asGemma(all)
			model := all["model"].(map[string]any)
			model["merges"] = change(model["merges"].([]any))
		})
		_, err := gguf.Export(t.Context(), gguf.Options{Model: dir, Out: filepath.Join(t.TempDir(), "x.gguf")},
			autograd.Heap{})
		if err == nil || !strings.Contains(err.Error(), "has merges far apart") {
			t.Errorf("%s: error %v", why, err)
		}
	}
}

// TestOfSeveralEndsOfATurnOneHasTheKey: the one that llama.cpp does not know by its text. It refuses a file that has a
// key twice.
func TestOfSeveralEndsOfATurnOneHasTheKey(t *testing.T) {
	dir := small(t, "llama", nil)
	vocab := map[string]int{"<s>": 0, "</s>": 1, "<|eot_id|>": 2, "<|im_end|>": 3, "<|user|>": 4, "<|eom_id|>": 5}
	write(t, dir, "tokenizer.json", map[string]any{"pre_tokenizer": byteLevel(true),
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	for _, tt := range []struct {
		ends []int
		want uint32
	}{{[]int{1, 2, 3, 5, 5}, 2}, {[]int{2, 4, 3}, 4}, {[]int{4, 2}, 4}} {
		write(t, dir, "generation_config.json", map[string]any{"eos_token_id": tt.ends})
		if got := readFile(t, export(t, dir, "f32")).keys["tokenizer.ggml.eot_token_id"]; got != tt.want {
			t.Errorf("of %v it is %v, want %d", tt.ends, got, tt.want)
		}
	}
}

// TestASpaceThatLlamaCppDoesNotPutIsNoted: of byte-level tokenizers it ignores the key that says so.
func TestASpaceThatLlamaCppDoesNotPutIsNoted(t *testing.T) {
	for _, before := range []bool{true, false} {
		step := byteLevel(true)
		step["add_prefix_space"] = before
		o := gguf.Options{Model: cutting(t, small(t, "llama", nil), []any{step}), Out: filepath.Join(t.TempDir(), "x.gguf")}
		r, err := gguf.Export(t.Context(), o, autograd.Heap{})
		if err != nil {
			t.Fatal(err)
		}
		noted := slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "add_prefix_space") })
		if noted != before {
			t.Errorf("with add_prefix_space %v the notes are %q", before, r.Notes)
		}
	}
}

// TestTagsWithBarsAreNoText: they are control tokens although tokenizer.json does not call them special.
func TestTagsWithBarsAreNoText(t *testing.T) {
	dir := small(t, "llama", nil)
	vocab := map[string]int{"<s>": 0, "</s>": 1, "<|a|>": 2, "<｜b｜>": 3, "<c>": 4}
	added := []any{}
	for text, id := range vocab {
		added = append(added, map[string]any{"id": id, "content": text, "special": id < 2})
	}
	write(t, dir, "tokenizer.json", map[string]any{"added_tokens": added, "pre_tokenizer": byteLevel(true),
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	kinds := readFile(t, export(t, dir, "f32")).keys["tokenizer.ggml.token_type"].([]any)
	const control, user = 3, 4
	want := []any{int32(control), int32(control), int32(control), int32(control), int32(user)}
	if !slices.Equal(kinds[:len(want)], want) {
		t.Errorf("the kinds are %v, want %v", kinds[:len(want)], want)
	}
}

func TestTokenizersThatTheFormatCannotSayAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change map[string]any
		want   string
	}{
		"an unknown way to cut words": {map[string]any{"pre_tokenizer": map[string]any{"type": "Sequence",
			"pretokenizers": []any{
				map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]any{"Regex": `\p{L}+`}},
				map[string]any{"type": "ByteLevel", "use_regex": false, "add_prefix_space": false}}}}, "no rule that is known"},
		"a normalizer": {map[string]any{"normalizer": map[string]any{"type": "Lowercase"}}, "Lowercase"},
		"too few byte tokens": {map[string]any{
			"normalizer": map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"},
			"model": map[string]any{"type": "BPE", "byte_fallback": true, "vocab": map[string]int{"</s>": 0},
				"merges": []string{}}}, "<0x00>"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := small(t, "llama", nil)
			all := map[string]any{"model": map[string]any{"type": "BPE", "vocab": map[string]int{"</s>": 0, "<s>": 1},
				"merges": []string{}}}
			for k, v := range tt.change {
				all[k] = v
			}
			write(t, dir, "tokenizer.json", all)
			write(t, dir, "tokenizer_config.json", map[string]any{"eos_token": "</s>"})
			_, err := gguf.Export(t.Context(), gguf.Options{Model: dir, Out: filepath.Join(t.TempDir(), "x.gguf")},
				autograd.Heap{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestNumbersThatATypeCannotHoldAreRefused(t *testing.T) {
	dir := small(t, "qwen3", nil)
	rewrite(t, dir, func(v *checkpoint.Named) {
		if strings.HasSuffix(v.Name, "1.mlp.up_proj.weight") {
			v.Tensor.Float32s()[5] = -70000
		}
	})
	_, err := gguf.Export(t.Context(), gguf.Options{Model: dir, Type: "f16", Out: filepath.Join(t.TempDir(), "x.gguf")},
		autograd.Heap{})
	if err == nil || !strings.Contains(err.Error(), "-70000 is more than f16 can hold") ||
		!strings.Contains(err.Error(), "1.mlp.up_proj") {
		t.Errorf("error %v", err)
	}
	export(t, dir, "bf16")
}

// TestATensorThatTheModelHasNoPlaceForIsRefused: the file would be without it, such as a bias that config.json denies.
func TestATensorThatTheModelHasNoPlaceForIsRefused(t *testing.T) {
	dir := small(t, "llama", map[string]any{"attention_bias": true})
	config, err := models.ReadConfig(dir)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(config, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	fields["attention_bias"] = false
	write(t, dir, "config.json", fields)
	_, err = gguf.Export(t.Context(), gguf.Options{Model: dir, Out: filepath.Join(t.TempDir(), "x.gguf")},
		autograd.Heap{})
	if err == nil || !strings.Contains(err.Error(), "no place in this model: model.layers.0.self_attn.k_proj.bias") {
		t.Errorf("error %v", err)
	}
}

// TestAQuantisedFolderIsRefusedByWhatHasMadeIt, and not for what its tensors are.
func TestAQuantisedFolderIsRefusedByWhatHasMadeIt(t *testing.T) {
	dir := small(t, "qwen3", map[string]any{})
	config, err := models.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(config, &fields); err != nil {
		t.Fatal(err)
	}
	fields["quantization_config"] = map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true,
		"bnb_4bit_quant_type": "nf4"}
	write(t, dir, "config.json", fields)
	_, err = gguf.Export(t.Context(), gguf.Options{Model: dir, Out: filepath.Join(t.TempDir(), "x.gguf")},
		autograd.Heap{})
	if err == nil || !strings.Contains(err.Error(), "quant_method bitsandbytes") ||
		!strings.Contains(err.Error(), "export the model that it was made from, with any adapter merged into that") {
		t.Errorf("error %v", err)
	}
}

func TestEveryFamilyIsExportedOrSaysWhyNot(t *testing.T) {
	for _, f := range models.Families() {
		out := filepath.Join(t.TempDir(), "x.gguf")
		_, err := gguf.Export(t.Context(), gguf.Options{Model: small(t, f.Type, nil), Out: out}, autograd.Heap{})
		if err != nil && (!strings.Contains(err.Error(), "config.json: ") || !strings.HasSuffix(err.Error(),
			"cannot be exported")) {
			t.Errorf("%s: %v", f.Type, err)
		}
	}
}

// TestBothChatTemplatesAreExported: llama.cpp takes the one called tool_use for conversations with tools.
func TestBothChatTemplatesAreExported(t *testing.T) {
	dir := small(t, "llama", nil)
	write(t, dir, "tokenizer_config.json", map[string]any{"bos_token": "<s>", "eos_token": "</s>", "chat_template": []any{
		map[string]any{"name": "tool_use", "template": "tools"}, map[string]any{"name": "default", "template": "plain"}}})
	f := readFile(t, export(t, dir, "f32"))
	plain, tools := f.keys["tokenizer.chat_template"], f.keys["tokenizer.chat_template.tool_use"]
	if plain != "plain" || tools != "tools" {
		t.Errorf("the templates are %q and %q", plain, tools)
	}
}

// TestRopeParametersByLayerAreExported as the older fields are.
func TestRopeParametersByLayerAreExported(t *testing.T) {
	linear := map[string]any{"rope_type": "linear", "factor": 8}
	six := map[string]any{"num_hidden_layers": 6, "sliding_window_pattern": 6, "query_pre_attn_scalar": 6}
	older, newer := maps.Clone(six), maps.Clone(six)
	older["rope_theta"], older["rope_scaling"] = 5e5, linear
	newer["rope_scaling"], newer["rope_parameters"] = nil, map[string]any{
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 1e4},
		"full_attention":    map[string]any{"rope_type": "linear", "factor": 8, "rope_theta": 5e5}}
	want := readFile(t, export(t, small(t, "gemma3_text", older), "f32")).keys
	got := readFile(t, export(t, small(t, "gemma3_text", newer), "f32")).keys
	for _, key := range []string{"gemma3.rope.freq_base", "gemma3.rope.scaling.type", "gemma3.rope.scaling.factor"} {
		if want[key] == nil || got[key] != want[key] {
			t.Errorf("%s is %v, want %v", key, got[key], want[key])
		}
	}
}
