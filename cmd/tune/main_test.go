package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed98097648/tune/internal/plugintest"
	"github.com/seed98097648/tune/plugins/builtin"
	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/checkpoint"
	"github.com/seed98097648/tune/trainer/models"
)

// TestMain makes the test binary answer to the name tune as well, and to those of plugins
// with a bug.
func TestMain(m *testing.M) {
	builtin.Serve()
	commands := buggyPlugins()
	commands["tune"] = func() { looking = -1; main() }
	testscript.Main(cleaning{m}, commands)
}

// cleaning removes what the tests share after they have run.
type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	code := c.M.Run()
	if root, err := plugins(); err == nil {
		os.RemoveAll(root)
	}
	return code
}

// plugins returns a folder with the project's plugins, and one for what is remembered
// about them, both made once.
var plugins = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "tune-cli-test-") })

var compiled sync.Once

func pluginDir(t *testing.T) string {
	t.Helper()
	root, err := plugins()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "plugins")
	compiled.Do(func() {
		plugintest.Compile(t, dir, "./plugins/npu_...")
		plugintest.Compile(t, filepath.Join(root, "blas"), "./plugins/blas_linear")
		plugintest.Compile(t, filepath.Join(root, "onednn"), "./plugins/onednn_linear")
		plugintest.Compile(t, filepath.Join(root, "cuda"), "./plugins/cuda_linear")
	})
	return dir
}

// cacheDir returns a folder for what is remembered of the project's plugins, so that each use is verified once,
// and not by every test.
func cacheDir(t *testing.T) string {
	t.Helper()
	root, err := plugins()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "cache")
}

// environment is what tune is started with: the default of --kernels is its own, and what it remembers stays here.
func environment(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "TUNE_KERNELS=", "XDG_CACHE_HOME="+cacheDir(t))
}

// tinyConfigs are models whose sizes tests know, by their model_type.
var tinyConfigs = map[string]string{
	"llama": `{"model_type": "llama", "vocab_size": 257, "hidden_size": 16, "intermediate_size": 24,
		"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
		"tie_word_embeddings": true, "max_position_embeddings": 64, "initializer_range": 0.1}`,
	"qwen3_moe": `{"model_type": "qwen3_moe", "vocab_size": 257, "hidden_size": 16, "intermediate_size": 24,
		"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
		"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "mlp_only_layers": [0],
		"norm_topk_prob": true, "max_position_embeddings": 64, "initializer_range": 0.1}`,
	"glm4_moe": `{"model_type": "glm4_moe", "vocab_size": 257, "hidden_size": 16, "intermediate_size": 24,
		"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
		"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "n_shared_experts": 2,
		"first_k_dense_replace": 1, "max_position_embeddings": 64, "initializer_range": 0.1}`,
}

// writeModel makes a model folder with random weights and one token for each byte.
func writeModel(dir, modelType string) error {
	return writeConfig(dir, []byte(tinyConfigs[modelType]))
}

func writeConfig(dir string, config []byte) error {
	m, err := models.New(config, autograd.Heap{})
	if err != nil {
		return err
	}
	m.Init(1)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files := map[string][]byte{"config.json": config, "tokenizer.json": byteTokenizer(),
		"tokenizer_config.json": []byte(`{"eos_token": "</s>"}`)}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			return err
		}
	}
	tensors, err := m.Named()
	if err != nil {
		return err
	}
	return checkpoint.Write(filepath.Join(dir, checkpoint.SingleFile), tensors, nil)
}

// byteTokenizer is a byte-level tokenizer without merges: token b is byte b, and 256 ends
// a text.
func byteTokenizer() []byte {
	vocab, next := map[string]int{}, rune(256)
	for b := range 256 {
		// Bytes that print stand for themselves, the others for what follows Latin-1.
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' && r <= 'ÿ') {
			r, next = next, next+1
		}
		vocab[string(r)] = b
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	b, err := json.Marshal(map[string]any{
		"version":       "1.0",
		"added_tokens":  []any{map[string]any{"id": 256, "content": "</s>", "special": true}},
		"pre_tokenizer": byteLevel,
		"decoder":       byteLevel,
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		panic(err) // maps of strings and numbers marshal
	}
	return b
}

// sampleText is a text of many short documents.
func sampleText() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "one two three %d four five six\n<|endoftext|>\n", i)
	}
	return b.String()
}

// modelAndText returns a folder with m, a small model of a type, and text.txt to train it on.
func modelAndText(t *testing.T, modelType string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := writeModel(filepath.Join(dir, "m"), modelType); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text.txt"), []byte(sampleText()), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestNothingThatIsSaidMovesTheCursor: names of tensors and files may come with a downloaded model.
func TestNothingThatIsSaidMovesTheCursor(t *testing.T) {
	const name, want = "foo\x1b[2J\a", `tune: foo\x1b[2J\x07` + "\n"
	var out bytes.Buffer
	a := &app{stderr: &out}
	for way, say := range map[string]func(){
		"an error": func() { a.report(errors.New(name)) },
		"a note":   func() { a.note("%s", name) },
		"a record": func() { slog.New(newNoteHandler(&out)).Warn(name) },
	} {
		out.Reset()
		if say(); out.String() != want {
			t.Errorf("%s is %q, want %q", way, &out, want)
		}
	}
}
