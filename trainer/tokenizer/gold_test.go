package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// goldCase is a text and what Hugging Face's Rust library makes of it.
type goldCase struct {
	Text    string
	IDs     []int32
	Special []int32 `json:"ids_with_special"` // absent where equal to IDs
	Decoded *string // absent where equal to Text
}

// loaded are the tokenizers that load has read, each by what reads it once.
var loaded sync.Map

// load returns the tokenizer of a folder below shared, which is read once for all tests: a real one takes most of a
// second, more than what is done with it.
func load(t testing.TB, elem ...string) *Tokenizer {
	t.Helper()
	dir := testdata.Shared(t, elem...)
	once, _ := loaded.LoadOrStore(dir, sync.OnceValues(func() (*Tokenizer, error) { return Load(dir) }))
	tok, err := once.(func() (*Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// goldFolders are the tokenizers that there are reference encodings of.
var goldFolders = map[string]string{
	"qwen3.json":              "tokenizers/qwen3",
	"qwen2_5.json":            "tokenizers/qwen2_5",
	"llama3_2.json":           "tokenizers/llama3_2",
	"llama2-stories15M.json":  "models/stories15M",
	"stories260K-tok512.json": "models/stories260K",
}

func TestEncodesAndDecodesLikeHuggingFace(t *testing.T) {
	for gold, folder := range goldFolders {
		t.Run(gold, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(testdata.Shared(t, "data", "tokenizers", "gold", gold))
			if err != nil {
				t.Fatal(err)
			}
			var file struct{ Cases []goldCase }
			if err := json.Unmarshal(data, &file); err != nil {
				t.Fatal(err)
			}
			if len(file.Cases) == 0 {
				t.Fatal("the file has no cases")
			}
			tok := load(t, "data", folder)
			for _, c := range file.Cases {
				checkGold(t, tok, c)
			}
		})
	}
}

func checkGold(t *testing.T, tok *Tokenizer, c goldCase) {
	t.Helper()
	if got := tok.Encode(c.Text, false); !slices.Equal(got, c.IDs) {
		t.Errorf("Encode(%q, false)\n got %v\nwant %v", c.Text, got, c.IDs)
	}
	special, decoded := c.IDs, c.Text
	if c.Special != nil {
		special = c.Special
	}
	if c.Decoded != nil {
		decoded = *c.Decoded
	}
	if got := tok.Encode(c.Text, true); !slices.Equal(got, special) {
		t.Errorf("Encode(%q, true)\n got %v\nwant %v", c.Text, got, special)
	}
	if got := tok.Decode(c.IDs, false); got != decoded {
		t.Errorf("Decode(%v, false)\n got %q\nwant %q", c.IDs, got, decoded)
	}
}

func TestEncodesLikeLlamaCpp(t *testing.T) {
	for vectors, folder := range map[string]string{
		"gpt-2":     "gpt2",
		"llama-bpe": "llama3_2",
		"llama-spm": "llama2_sentencepiece",
		"qwen2":     "qwen2_5",
	} {
		t.Run(vectors, func(t *testing.T) {
			t.Parallel()
			read := func(ext string) string {
				data, err := os.ReadFile(testdata.Shared(t, "data", "tokenizers", "llamacpp_vectors", "ggml-vocab-"+vectors+ext))
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			texts := strings.Split(read(".inp"), "\n__ggml_vocab_test__\n")
			lines := strings.Split(strings.TrimSuffix(read(".out"), "\n"), "\n")
			if len(texts) < len(lines) || len(lines) < 2 {
				t.Fatalf("%d texts, %d lines of ids", len(texts), len(lines))
			}
			tok := load(t, "data", "tokenizers", folder)
			for i, line := range lines {
				var want []int32
				for _, f := range strings.Fields(line) {
					id, err := strconv.ParseInt(f, 10, 32)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(id))
				}
				if got := tok.Encode(texts[i], false); !slices.Equal(got, want) {
					t.Errorf("Encode(%q, false)\n got %v\nwant %v", texts[i], got, want)
				}
			}
		})
	}
}

func TestRoundTripsOnRealTokenizers(t *testing.T) {
	text := "Hello, wörld! 你好 🦙🚀\r\n\n  \tdef f(x):\n\t\treturn x**2 # 12345 …\u00a0I'LL '\x00'"
	for _, folder := range []string{"glm4", "gpt2", "llama3_2", "qwen3"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			tok := load(t, "data", "tokenizers", folder)
			ids := tok.Encode(text, true)
			if got := tok.Decode(ids, true); got != text {
				t.Errorf("Decode(Encode(%q)) = %q", text, got)
			}
			for _, id := range ids {
				if int(id) >= tok.VocabSize() {
					t.Errorf("id %d, VocabSize %d", id, tok.VocabSize())
				}
			}
		})
	}
}

func TestLoadFindsRolesOfRealTokenizers(t *testing.T) {
	for folder, want := range map[string][3]string{
		"llama3_2": {"<|begin_of_text|>", "<|eot_id|>", ""},
		"qwen2_5":  {"", "<|im_end|>", "<|endoftext|>"},
		"glm4":     {"", "<|endoftext|>", "<|endoftext|>"},
		"gpt2":     {"<|endoftext|>", "<|endoftext|>", ""},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			tok := load(t, "data", "tokenizers", folder)
			for i, role := range []func() (int32, bool){tok.BOS, tok.EOS, tok.Pad} {
				id, ok := role()
				token, _ := tok.Token(id)
				if ok != (want[i] != "") || ok && token != want[i] {
					t.Errorf("role %d: %q, %v; want %q", i, token, ok, want[i])
				}
			}
		})
	}
}

// BenchmarkEncode encodes plays of Shakespeare scene by scene.
func BenchmarkEncode(b *testing.B) {
	for _, folder := range []string{"qwen3", "llama3_2", "llama2_sentencepiece"} {
		b.Run(folder, func(b *testing.B) {
			tok := load(b, "data", "tokenizers", folder)
			data, err := os.ReadFile(testdata.Shared(b, "data", "datasets", "text", "tinyshakespeare.txt"))
			if err != nil {
				b.Fatal(err)
			}
			parts := strings.Split(string(data[:min(len(data), 300_000)]), "\n\n")
			b.SetBytes(int64(min(len(data), 300_000)))
			for b.Loop() {
				for _, p := range parts {
					tok.Encode(p, false)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, folder := range []string{"qwen3", "llama3_2", "llama2_sentencepiece"} {
		b.Run(folder, func(b *testing.B) {
			dir := testdata.Shared(b, "data", "tokenizers", folder)
			info, err := os.Stat(filepath.Join(dir, tokenizerFile))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(info.Size())
			for b.Loop() {
				if _, err := Load(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
