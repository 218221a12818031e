package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed98097648/tune/internal/testdata"
)

// streamed decodes tokens one by one and fails unless each piece is whole characters.
func streamed(t testing.TB, s *Stream, ids []int32) string {
	t.Helper()
	var text strings.Builder
	for i, id := range ids {
		piece := s.Next(id)
		if !utf8.ValidString(piece) {
			t.Errorf("token %d of %v gave %q, which is not whole characters", i, ids, piece)
		}
		text.WriteString(piece)
	}
	text.WriteString(s.End())
	return text.String()
}

// TestStreamOfRecordedTextsIsDecode reads the reference encodings of every tokenizer one
// token at a time, in a stream that is used again.
func TestStreamOfRecordedTextsIsDecode(t *testing.T) {
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
			tok := load(t, "data", folder)
			all, skipping := tok.Stream(false), tok.Stream(true)
			for _, c := range file.Cases {
				ids := tok.Encode(c.Text, true)
				if got, want := streamed(t, all, ids), tok.Decode(ids, false); got != want {
					t.Errorf("streamed %q, decoded %q", got, want)
				}
				if got, want := streamed(t, skipping, ids), tok.Decode(ids, true); got != want {
					t.Errorf("without special tokens: streamed %q, decoded %q", got, want)
				}
			}
		})
	}
}

// TestStreamOfAnyTokensIsDecode takes tokens at random, so that most bytes make no
// characters.
func TestStreamOfAnyTokensIsDecode(t *testing.T) {
	for _, folder := range []string{"tokenizers/gpt2", "tokenizers/glm4", "tokenizers/llama2_sentencepiece",
		"models/stories260K"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			tok := load(t, "data", folder)
			rng := rand.New(rand.NewPCG(1, 2))
			for range 500 {
				ids := make([]int32, rng.IntN(40))
				for i := range ids {
					ids[i] = int32(rng.IntN(tok.VocabSize()))
					if rng.IntN(2) == 0 {
						ids[i] = int32(rng.IntN(min(300, tok.VocabSize()))) // where the bytes are
					}
				}
				if got, want := streamed(t, tok.Stream(true), ids), tok.Decode(ids, true); got != want {
					t.Fatalf("%v streamed %q, decoded %q", ids, got, want)
				}
			}
		})
	}
}

func TestStreamHoldsBackWhatMayChange(t *testing.T) {
	sentencepiece := []byte(`{"model": {"type": "BPE", "byte_fallback": true,
		"vocab": {"<0xE4>": 0, "<0xBD>": 1, "<0xA0>": 2, "▁": 3, "▁a": 4, "b": 5}, "merges": []},
		"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
		{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}`)
	byteLevel := []byte(`{"model": {"type": "BPE", "vocab": {"ä": 0, "½": 1, "ł": 2, "Ġ": 3, "Ġa": 4, "b": 5},
		"merges": []}, "decoder": {"type": "ByteLevel"}}`)
	tests := []struct {
		name string
		file []byte
		ids  []int32
		want []string // of each token, then of the end
	}{
		{"a character of bytes is whole when the run has ended", sentencepiece, []int32{5, 0, 1, 2, 5},
			[]string{"b", "", "", "", "你b", ""}},
		{"a run that ends the text", sentencepiece, []int32{5, 0, 1, 2}, []string{"b", "", "", "", "你"}},
		{"a run that breaks off", sentencepiece, []int32{0, 1, 4}, []string{"", "", "\uFFFD\uFFFD a", ""}},
		{"the first space goes", sentencepiece, []int32{4, 4, 3}, []string{"a", " a", " ", ""}},
		{"only the first", sentencepiece, []int32{3, 3, 4}, []string{"", " ", " a", ""}},
		{"a character of bytes is whole with its last", byteLevel, []int32{5, 0, 1, 2, 5},
			[]string{"b", "", "", "你", "b", ""}},
		{"bytes that break off", byteLevel, []int32{0, 1, 4}, []string{"", "", "\uFFFD a", ""}},
		{"bytes that end the text", byteLevel, []int32{4, 0}, []string{" a", "", "\uFFFD"}},
		{"ids that no token has", byteLevel, []int32{5, 77, -1, 5}, []string{"b", "", "", "b", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tok, err := Parse("tokenizer.json", tt.file)
			if err != nil {
				t.Fatal(err)
			}
			s := tok.Stream(false)
			for i, id := range tt.ids {
				if got := s.Next(id); got != tt.want[i] {
					t.Errorf("token %d gave %q, want %q", i, got, tt.want[i])
				}
			}
			if got, want := s.End(), tt.want[len(tt.ids)]; got != want {
				t.Errorf("the end gave %q, want %q", got, want)
			}
		})
	}
}

// FuzzStream decodes any tokens with any order of decoders, at once and one by one.
func FuzzStream(f *testing.F) {
	kinds := []string{
		`{"type": "ByteLevel"}`, `{"type": "ByteFallback"}`, `{"type": "Fuse"}`, `{"type": "Metaspace"}`,
		`{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}`,
		`{"type": "Replace", "pattern": {"Regex": "a+"}, "content": "<>"}`,
		`{"type": "Strip", "content": " ", "start": 1, "stop": 0}`,
		`{"type": "Strip", "content": "a", "start": 2, "stop": 1}`,
	}
	vocab := `{"ä": 0, "½": 1, "ł": 2, "Ġ": 3, "▁": 4, "▁a": 5, "a": 6, "": 7, "<0xE4>": 8, "<0xBD>": 9, "<0xA0>": ` +
		`10, "<0x20>": 11, " ": 12, "<s>": 13}`
	f.Add([]byte{4, 1, 2, 6}, []byte{5, 8, 9, 10, 5})
	f.Add([]byte{0}, []byte{3, 0, 1, 2, 6, 0})
	f.Add([]byte{}, []byte{5, 6, 13, 7})
	f.Fuzz(func(t *testing.T, order, tokens []byte) {
		if len(order) > 6 || len(tokens) > 64 {
			return
		}
		decoders := make([]string, len(order))
		for i, k := range order {
			decoders[i] = kinds[int(k)%len(kinds)]
		}
		decoder := `{"type": "Sequence", "decoders": [` + strings.Join(decoders, ",") + `]}`
		if len(order) == 0 {
			decoder = "null"
		}
		tok, err := Parse("fuzz", []byte(`{"added_tokens": [{"id": 13, "content": "<s>", "special": true}],
			"model": {"type": "BPE", "vocab": `+vocab+`, "merges": []}, "decoder": `+decoder+`}`))
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int32, len(tokens))
		for i, b := range tokens {
			ids[i] = int32(b) % 16 // two of which no token has
		}
		for _, skip := range []bool{false, true} {
			if got, want := streamed(t, tok.Stream(skip), ids), tok.Decode(ids, skip); got != want {
				t.Errorf("%s: %v streamed %q, decoded %q", decoder, ids, got, want)
			}
		}
	})
}
