package gguf_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// llama is a process of llama.cpp that answers questions about files; see testdata/llamacpp.mjs.
type llama struct {
	in  *json.Encoder
	out *bufio.Scanner
}

// modules returns the folder of node_modules with node-llama-cpp in it, which brings llama.cpp.
func modules(t *testing.T) string {
	for _, dir := range filepath.SplitList(os.Getenv("NODE_PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "node-llama-cpp")); err == nil {
			return dir
		}
	}
	t.Skip("llama.cpp is absent: \"npm install --ignore-scripts node-llama-cpp@3.22.1\" in a folder brings it, and " +
		"NODE_PATH " +
		"is to name that folder's node_modules")
	return ""
}

// start starts llama.cpp, and skips the test where it is absent.
func start(t *testing.T) *llama {
	dir := modules(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, "node", filepath.Join("testdata", "llamacpp.mjs"), dir)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skipf("node cannot be started: %v", err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		c.Wait()
	})
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<24)
	return &llama{json.NewEncoder(in), s}
}

type answer struct {
	Error       string
	Logits      [][2]float64
	Prompt, IDs []int32
	Split       [][]int32
}

func (l *llama) ask(t *testing.T, question map[string]any) answer {
	t.Helper()
	if err := l.in.Encode(question); err != nil {
		t.Fatal(err)
	}
	if !l.out.Scan() {
		t.Fatalf("llama.cpp has ended: %v", l.out.Err())
	}
	var a answer
	if err := json.Unmarshal(l.out.Bytes(), &a); err != nil || a.Error != "" {
		t.Fatalf("%v %s", err, a.Error)
	}
	return a
}

// equal compares llama.cpp's likeliest token and its logit at every position, and returns the largest difference.
func equal(t *testing.T, got [][2]float64, want [][]float32, tolerance float64) {
	t.Helper()
	if len(got) == 0 || len(got) > len(want) {
		t.Fatalf("%d logits for %d tokens", len(got), len(want))
	}
	worst := 0.0
	for i, g := range got {
		best := slices.Index(want[i], slices.Max(want[i]))
		if int(g[0]) != best {
			t.Errorf("the likeliest token after token %d is %g, want %d", i, g[0], best)
		}
		worst = max(worst, math.Abs(g[1]-float64(want[i][int(g[0])])))
	}
	if t.Logf("largest difference %.2g", worst); !(worst <= tolerance) {
		t.Errorf("logits differ by up to %.3g, more than %g", worst, tolerance)
	}
}

// TestLlamaCppContinuesStoriesAsRecorded compares a hundred greedy tokens with the recording of
// another program, and so with tune's, which are the same.
func TestLlamaCppContinuesStoriesAsRecorded(t *testing.T) {
	l := start(t)
	for _, name := range []string{"stories260K", "stories15M"} {
		dir := testdata.Shared(t, "data", "models", name)
		var recorded struct {
			Cases []struct {
				Prompt []int32 `json:"prompt_ids"`
				Greedy []int32 `json:"greedy_ids"`
				Text   string  `json:"prompt"`
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, "gold.json"))
		if err == nil {
			err = json.Unmarshal(b, &recorded)
		}
		if err != nil || len(recorded.Cases) == 0 {
			t.Fatal(err)
		}
		file := export(t, dir, "f32")
		for _, c := range recorded.Cases {
			want := c.Greedy[len(c.Prompt):]
			a := l.ask(t, map[string]any{"file": file, "text": c.Text, "tokens": len(want)})
			if !slices.Equal(a.Prompt, c.Prompt) {
				t.Errorf("%s: %q is %v, want %v", name, c.Text, a.Prompt, c.Prompt)
			}
			if !slices.Equal(a.IDs, want) {
				t.Errorf("%s: %q goes on with %v, want %v", name, c.Text, a.IDs, want)
			}
		}
	}
}

// TestLlamaCppHasTheGoldenLogits compares with what the families' published code computes.
func TestLlamaCppHasTheGoldenLogits(t *testing.T) {
	l := start(t)
	for _, name := range []string{"llama-tiny", "llama3-rope-scaling", "qwen2-tied", "qwen3-tied", "qwen3-yarn",
		"qwen3-bf16-sharded",
		"qwen3-moe", "glm4-0414", "glm4-moe-air"} {
		t.Run(name, func(t *testing.T) {
			dir := testdata.Shared(t, "golden", "models", name)
			golden, err := checkpoint.Open(filepath.Join(dir, "golden.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer golden.Close()
			tokens, err := golden.Tensor("input_ids")
			if err != nil {
				t.Fatal(err)
			}
			want, err := golden.Tensor("logits")
			if err != nil {
				t.Fatal(err)
			}
			file := export(t, withTokens(t, dir), "f32")
			length, vocab := tokens.Shape[1], want.Shape[2]
			var kept []int64
			if mask, err := golden.Tensor("attention_mask"); err == nil {
				kept = mask.Int64s()
			}
			for row := range tokens.Shape[0] {
				var in []int64
				for i, id := range tokens.Int64s()[row*length : (row+1)*length] {
					if kept == nil || kept[row*length+i] == 1 {
						in = append(in, id)
					}
				}
				a := l.ask(t, map[string]any{"file": file, "ids": in})
				equal(t, a.Logits, split(want.Float32s()[row*length*vocab:(row+1)*length*vocab], vocab), 2e-5)
			}
		})
	}
}

// TestLlamaCppComputesEveryFamily compares with tune's logits for small models of every family that is
// exported, with all the parts that the family has here. Of a GELU, llama.cpp takes argument and value as float16,
// which is 1.6e-3 in these logits; so that all else of Gemma is compared as closely as any family, its MLPs, of
// which a norm says how much they add, add little here.
func TestLlamaCppComputesEveryFamily(t *testing.T) {
	l := start(t)
	rope := func(kind string, more map[string]any) map[string]any {
		s := map[string]any{"rope_type": kind, "factor": 4.0}
		for k, v := range more {
			s[k] = v
		}
		return map[string]any{"rope_scaling": s}
	}
	for _, tt := range []struct {
		name, family string
		change       map[string]any
		tokens       int
	}{
		{"llama with biases", "llama", nil, 24},
		{"llama, linear", "llama", rope("linear", nil), 24},
		{"llama, yarn with a factor of its own", "llama", rope("yarn",
			map[string]any{"original_max_position_embeddings": 16, "attention_factor": 1.3}), 24},
		{"mistral within its window", "mistral", nil, 4},
		{"qwen2", "qwen2", map[string]any{"hidden_size": 24, "use_sliding_window": false}, 24},
		{"qwen2, linear", "qwen2", map[string]any{"hidden_size": 24, "use_sliding_window": false,
			"rope_scaling": map[string]any{"type": "linear", "factor": 2.0}}, 24},
		{"qwen3", "qwen3", nil, 24},
		{"qwen3, linear", "qwen3", rope("linear", nil), 24},
		{"qwen3_moe", "qwen3_moe", map[string]any{"mlp_only_layers": []int{}}, 24},
		{"qwen3_moe, yarn", "qwen3_moe", map[string]any{"mlp_only_layers": []int{},
			"rope_scaling": map[string]any{"type": "yarn", "factor": 4.0,
				"original_max_position_embeddings": 16}}, 24},
		{"glm4", "glm4", nil, 24},
		{"glm4 with biases", "glm4", map[string]any{"attention_bias": true}, 24},
		{"glm4_moe", "glm4_moe", map[string]any{"n_group": 1, "topk_group": 1}, 24},
		{"phi3 within its window", "phi3", map[string]any{"hidden_size": 32, "rope_scaling": nil}, 5},
		{"phi3, longrope", "phi3", map[string]any{"hidden_size": 32, "sliding_window": nil, "max_position_embeddings": 4096,
			// llama.cpp makes room for 256 at least, and beyond 512 counts long_factor
			"original_max_position_embeddings": 512}, 24},
		{"mixtral within its window", "mixtral", nil, 5},
		{"mixtral", "mixtral", map[string]any{"sliding_window": nil}, 24},
		{"olmo2", "olmo2", map[string]any{"attention_bias": false, "hidden_size": 24}, 24},
		{"granite with biases", "granite", nil, 24},
		{"granite without, untied", "granite", map[string]any{"attention_bias": false, "mlp_bias": false,
			"tie_word_embeddings": false}, 24},
		{"ernie4_5", "ernie4_5", map[string]any{"use_bias": false}, 24},
		{"ernie4_5_moe", "ernie4_5_moe", nil, 24},
		{"ernie4_5_moe, all layers with experts", "ernie4_5_moe", map[string]any{"moe_layer_start_index": 0,
			"moe_num_shared_experts": 0, "tie_word_embeddings": true}, 24},
		{"ernie4_5_moe, yarn", "ernie4_5_moe", rope("yarn", map[string]any{"original_max_position_embeddings": 16}), 24},
		{"ernie4_5_moe, linear", "ernie4_5_moe", rope("linear", nil), 24},
		{"gpt_oss", "gpt_oss", map[string]any{"swiglu_limit": 7,
			"rope_scaling": map[string]any{"rope_type": "default"}}, 24},
		{"gpt_oss, clamped", "gpt_oss", map[string]any{"initializer_range": 0.8, "swiglu_limit": 7,
			"rope_scaling": map[string]any{"rope_type": "default"}}, 24},
		{"gpt_oss, windows of its own", "gpt_oss", map[string]any{"swiglu_limit": 7, "num_hidden_layers": 3,
			"layer_types": []string{"full_attention", "sliding_attention", "sliding_attention"}, "rope_scaling": map[string]any{
				"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16}}, 24},
		{"gpt_oss, linear", "gpt_oss", map[string]any{"swiglu_limit": 7,
			"rope_scaling": map[string]any{"rope_type": "linear", "factor": 4}}, 24},
		{"deepseek_v3", "deepseek_v3", latent("rope_scaling", nil), 24},
		{"deepseek_v3, queries by one layer", "deepseek_v3", latent("q_lora_rank", nil), 24},
		{"deepseek_v3, rotating in halves", "deepseek_v3", latent("rope_interleave", false), 24},
		{"deepseek_v3, queries by one layer in halves", "deepseek_v3", map[string]any{"attention_bias": false, "n_group": 1,
			"topk_group": 1, "rope_interleave": false, "q_lora_rank": nil}, 24},
		{"deepseek_v3, all groups", "deepseek_v3", latent("topk_group", 4, "n_group", 4), 24},
		{"deepseek_v3, yarn as published", "deepseek_v3", latent("rope_scaling", latentYarn("mscale", 1,
			"mscale_all_dim", 1)), 24},
		{"deepseek_v3, yarn without mscale", "deepseek_v3", latent("rope_scaling", latentYarn()), 24},
		{"deepseek_v3, yarn with mscale_all_dim alone", "deepseek_v3", latent("rope_scaling",
			latentYarn("mscale_all_dim", 0.6)), 24},
		{"deepseek_v3, yarn with a factor of its own", "deepseek_v3", latent("rope_scaling", latentYarn("mscale", 1,
			"mscale_all_dim", 0.7, "attention_factor", 1.4)), 24},
		{"deepseek_v3, no scale of weights", "deepseek_v3", latent("norm_topk_prob", false, "tie_word_embeddings", true,
			"first_k_dense_replace", 0), 24},
		{"smollm3, five layers", "smollm3", map[string]any{"num_hidden_layers": 5, "no_rope_layer_interval": 4,
			"use_sliding_window": false, "attention_bias": false, "mlp_bias": false}, 24},
		{"gemma2", "gemma2", map[string]any{"query_pre_attn_scalar": 6, "attention_bias": false}, 24},
		{"gemma3_text", "gemma3_text", map[string]any{"query_pre_attn_scalar": 6, "num_hidden_layers": 7,
			"sliding_window_pattern": 6, "rope_scaling": nil}, 24},
		{"gemma3_text, linear", "gemma3_text", map[string]any{"query_pre_attn_scalar": 6, "num_hidden_layers": 7,
			"sliding_window_pattern": 6}, 24},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := small(t, tt.family, tt.change)
			tokens := ids(29, tt.tokens)
			a := l.ask(t, map[string]any{"file": export(t, dir, "f32"), "ids": tokens})
			equal(t, a.Logits, logits(t, dir, models.LoadOptions{Frozen: true}, tokens), 2e-5)
		})
	}
}

// TestLlamaCppChoosesExpertsOfGroups has corrections that are not negative: only then do all scores within the best
// groups come before those outside, which transformers counts as 0.
func TestLlamaCppChoosesExpertsOfGroups(t *testing.T) {
	l := start(t)
	for name, change := range map[string]map[string]any{"glm4_moe": nil,
		"deepseek_v3": latent("n_group", 4, "topk_group", 2, "initializer_range", 0.6)} {
		t.Run(name, func(t *testing.T) {
			dir := small(t, name, change)
			rewrite(t, dir, func(v *checkpoint.Named) {
				if strings.HasSuffix(v.Name, "e_score_correction_bias") {
					for i, x := range v.Tensor.Float32s() {
						v.Tensor.Float32s()[i] = float32(math.Abs(float64(x)))
					}
				}
			})
			tokens := ids(29, 24)
			a := l.ask(t, map[string]any{"file": export(t, dir, "f32"), "ids": tokens})
			equal(t, a.Logits, logits(t, dir, models.LoadOptions{Frozen: true}, tokens), 2e-5)
		})
	}
}

// TestLlamaCppSplitsTextsAsTheTokenizer compares with tune's tokenizer, whose ids are those of Hugging Face's own
// library.
func TestLlamaCppSplitsTextsAsTheTokenizer(t *testing.T) {
	l := start(t)
	texts := []string{"Hello there, world!", "I'll pay $1234567.89; you'LL pay 20%", "  two  spaces\n\n\tand a tab \n",
		"Zażółć gęślą jaźń",
		"今天天气很好。", "naïve café CAFÉ 🙂👍🏽", "かたカナ漢字kanji한국어", "हिन्दी (a.b) #x @y ~z $5",
		"for (int i = 0; i < 10; i++) { x[i] += 0x1F; }", "don't WE'VE it's", "١٢٣ ⅷ ²", "a",
		strings.Repeat(" ", 37) + "a" + strings.Repeat("\n", 21) + strings.Repeat(" ", 5) + "\n\n  b"}
	for _, tt := range []struct {
		tokenizer, family string
		change            func(t *testing.T, dir string) string
	}{
		{"gpt2", "qwen2", nil}, {"qwen2_5", "qwen2", nil}, {"llama3_2", "llama", nil}, {"glm4", "qwen3", nil},
		{"llama2_sentencepiece", "llama", nil},
		{"gpt2", "llama", func(t *testing.T, dir string) string { return cutting(t, dir, digitSteps()) }},
		{"gpt2", "deepseek_v3", func(t *testing.T, dir string) string { return cutting(t, dir, deepseekSteps()) }},
		{"llama2_sentencepiece", "qwen3", func(t *testing.T, dir string) string { return retokenised(t, dir, asGemma) }},
	} {
		t.Run(tt.tokenizer+" as "+tt.family, func(t *testing.T) {
			from := testdata.Shared(t, "data", "tokenizers", tt.tokenizer)
			if tt.change != nil {
				from = tt.change(t, from)
			}
			tok, err := tokenizer.Load(from)
			if err != nil {
				t.Fatal(err)
			}
			dir := small(t, tt.family, latent("vocab_size", tok.VocabSize()+3, "hidden_size", 24, "use_sliding_window", false))
			for _, file := range []string{"tokenizer.json", "tokenizer_config.json"} {
				b, err := os.ReadFile(filepath.Join(from, file))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, file), b, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got := l.ask(t, map[string]any{"file": export(t, dir, "bf16"), "split": texts}).Split
			for i, text := range texts {
				if want := tok.Encode(text, false); !slices.Equal(got[i], want) {
					t.Errorf("%q is %v, want %v", text, got[i], want)
				}
			}
		})
	}
}
