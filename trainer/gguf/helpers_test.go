package gguf_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/gguf"
	"github.com/seed98097648/tune/trainer/models"
	"github.com/seed98097648/tune/trainer/nn"
)

// export writes the folder's model and returns the file.
func export(t *testing.T, dir, kind string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "model.gguf")
	if _, err := gguf.Export(t.Context(), gguf.Options{Model: dir, Type: kind, Out: out}, autograd.Heap{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// linked returns a folder with the files of dir.
func linked(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Symlink(filepath.Join(dir, f.Name()), filepath.Join(to, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// withTokens returns a folder with the files of dir and a made-up tokenizer of as many tokens as the model has.
func withTokens(t *testing.T, dir string) string {
	t.Helper()
	to := linked(t, dir)
	var c struct {
		Vocab int `json:"vocab_size"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	writeTokens(t, to, c.Vocab)
	return to
}

func writeTokens(t *testing.T, dir string, size int) {
	t.Helper()
	vocab := map[string]int{"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5}
	for i := len(vocab); i < size; i++ {
		vocab[fmt.Sprintf("t%d", i)] = i
	}
	write(t, dir, "tokenizer.json", map[string]any{
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{"a b"}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel"},
	})
	write(t, dir, "tokenizer_config.json", map[string]any{"bos_token": "<s>", "eos_token": "</s>"})
}

func write(t *testing.T, dir, name string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// small writes a small model of a family with random weights, and returns its folder.
func small(t *testing.T, family string, change map[string]any) string {
	t.Helper()
	for _, f := range models.Families() {
		if f.Type != family {
			continue
		}
		config := f.Small()
		maps.Copy(config, change)
		b, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		m, err := models.New(b, autograd.Heap{})
		if err != nil {
			t.Fatal(err)
		}
		m.Init(7)
		dir := t.TempDir()
		write(t, dir, "config.json", config)
		writeTokens(t, dir, m.Vocab())
		named, err := m.Named()
		vary(named)
		if err == nil {
			err = checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), named, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Fatalf("there is no family %s", family)
	return ""
}

// rewrite changes the weights of a folder.
func rewrite(t *testing.T, dir string, change func(v *checkpoint.Named)) {
	t.Helper()
	weights, err := checkpoint.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var named []checkpoint.Named
	for _, name := range weights.Names() {
		v, err := weights.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		named = append(named, checkpoint.Named{Name: name, Tensor: v})
		change(&named[len(named)-1])
	}
	weights.Close()
	if err := checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), named, nil); err != nil {
		t.Fatal(err)
	}
}

// narrow rounds the weights of a folder to the types that their names have.
func narrow(t *testing.T, dir string, as func(name string) core.DType) {
	t.Helper()
	rewrite(t, dir, func(v *checkpoint.Named) {
		rounded := core.NewTensor(as(v.Name), v.Tensor.Shape...)
		rounded.Store(v.Tensor.Float32s(), 0)
		v.Tensor = rounded
	})
}

// vary makes norms, which begin alike, differ from one another, and biases from zero. The last norm of an MLP whose
// activation is a GELU lets little of it through: see TestLlamaCppComputesEveryFamily.
func vary(named []checkpoint.Named) {
	for n, v := range named {
		one := v.Tensor.Shape[0] == v.Tensor.Elems() || v.Tensor.Shape[0] == 1 || strings.HasSuffix(v.Name, "_bias")
		if !one || v.Tensor.DType != core.Float32 {
			continue
		}
		for i, x := range v.Tensor.Float32s() {
			more := 0.3 * float32(math.Sin(float64(7*n+3*i)))
			if strings.HasSuffix(v.Name, "post_feedforward_layernorm.weight") && x == 0 { // of Gemma: around zero
				x, more = -1, more/64
			}
			v.Tensor.Float32s()[i] = x + more
		}
	}
}

// logits returns what tune gives for each token: the logits of all.
func logits(t *testing.T, dir string, o models.LoadOptions, ids []int32) [][]float32 {
	t.Helper()
	m, err := models.LoadWith(dir, autograd.Heap{}, o)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := data.Pack([][]int32{ids}, len(ids), 0)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nn.NewContext(autograd.Heap{}, 1, len(ids), len(ids))
	if err != nil {
		t.Fatal(err)
	}
	out := m.Forward(nc)
	out.Logits.Keep()
	p, err := m.Compile(nc, out.Loss, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for b := range data.Batches(rows, 1) {
		if err := p.Batch.Fill(b, b.Targets()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Forward(t.Context()); err != nil {
		t.Fatal(err)
	}
	return split(p.Tensor(out.Logits).Float32s(), m.Vocab())
}

func split(flat []float32, n int) (rows [][]float32) {
	for ; len(flat) > 0; flat = flat[n:] {
		rows = append(rows, flat[:n])
	}
	return rows
}

func ids(vocab, n int) (out []int32) {
	for i := range n {
		out = append(out, int32((i*i*7+3*i+1)%vocab))
	}
	return out
}

// latent is a change of a small model of deepseek_v3, by keys and values, that llama.cpp computes as it is.
func latent(more ...any) map[string]any {
	c := map[string]any{"attention_bias": false, "n_group": 1, "topk_group": 1, "rms_norm_eps": 1e-6}
	return with(c, more)
}

// latentYarn is its rope_scaling.
func latentYarn(more ...any) map[string]any {
	return with(map[string]any{"type": "yarn", "factor": 4, "original_max_position_embeddings": 16}, more)
}

func with(c map[string]any, more []any) map[string]any {
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

func expression(text string) map[string]any {
	return map[string]any{"type": "Split", "pattern": map[string]any{"Regex": text}, "behavior": "Isolated"}
}

func byteLevel(words bool) map[string]any {
	return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": words}
}

// digitSteps is how the tokenizers of SmolLM2 and of Granite cut words.
func digitSteps() []any {
	return []any{map[string]any{"type": "Digits", "individual_digits": true}, byteLevel(true)}
}

// deepseekSteps is how that of DeepSeek-V3 cuts words.
func deepseekSteps() []any {
	return []any{expression(`\p{N}{1,3}`), expression("[一-龥\u3040-ゟ゠-ヿ]+"),
		expression("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
			`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`), byteLevel(false)}
}

// cutting returns a folder with the files of dir, where pre_tokenizer has these steps.
func cutting(t *testing.T, dir string, steps []any) string {
	t.Helper()
	return retokenised(t, dir, func(all map[string]any) {
		all["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": steps}
	})
}

// retokenised returns a folder with the files of dir, where change was made to tokenizer.json.
func retokenised(t *testing.T, dir string, change func(all map[string]any)) string {
	t.Helper()
	to := linked(t, dir)
	all := map[string]any{}
	b, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err == nil {
		err = os.Remove(filepath.Join(to, "tokenizer.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	change(all)
	write(t, to, "tokenizer.json", all)
	return to
}

// asGemma makes a tokenizer of SentencePiece's kind like Gemma's: no space is put before a text, and runs of white
// space are added tokens that merges make, too, of which those into longer runs take turns.
func asGemma(all map[string]any) {
	const longest = 16
	all["normalizer"] = map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}
	all["pre_tokenizer"] = map[string]any{"type": "Split", "pattern": map[string]any{"String": " "},
		"behavior": "MergedWithPrevious"}
	model := all["model"].(map[string]any)
	vocab, added := model["vocab"].(map[string]any), all["added_tokens"].([]any)
	var merges []any
	for left := longest - 1; left > 0; left-- {
		for right := longest - left; right > 0; right-- {
			for _, c := range []string{"\n", "▁"} {
				merges = append(merges, []any{strings.Repeat(c, left), strings.Repeat(c, right)})
			}
		}
	}
	for _, c := range []string{"\n", "▁"} {
		for n := range longest {
			run := strings.Repeat(c, n+1)
			if vocab[run] == nil {
				vocab[run] = len(vocab)
			}
			if n > 0 {
				added = append(added, map[string]any{"id": vocab[run], "content": run, "special": false})
			}
		}
	}
	for _, m := range model["merges"].([]any) {
		pair := strings.SplitN(m.(string), " ", 2)
		if strings.Trim(pair[0]+pair[1], "▁") != "" {
			merges = append(merges, []any{pair[0], pair[1]})
		}
	}
	model["merges"], all["added_tokens"] = merges, added
}
