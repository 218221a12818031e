package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// Wherever the list is, and whatever it holds, tokens are added to it and nothing else changes.
func TestAddedTokensAreAdded(t *testing.T) {
	no := false
	added := []addedToken{{ID: 5, Content: "<a>", Special: true, Normalized: &no}, {ID: 6, Content: "é"}}
	for before, want := range map[string]string{
		`{"a": [1, {"added_tokens": []}], "added_tokens": [], "b": 2}`: `{"a": [1, {"added_tokens": []}], ` +
			`"added_tokens": [+], "b": 2}`,
		"{\"added_tokens\": [\n {\"id\": 1}\n ]\n}": "{\"added_tokens\": [\n {\"id\": 1},\n    +\n  ]\n}",
		`{"added_tokens": null}`:                    `{"added_tokens": [+]}`,
		`{"b": 2}`:                                  `{"added_tokens": [+],"b": 2}`,
	} {
		got, err := withAdded([]byte(before), added)
		entries := `{"id":5,"content":"<a>","single_word":false,"lstrip":false,"rstrip":false,"special":true,` +
			`"normalized":false}` + ",\n    " +
			`{"id":6,"content":"é","single_word":false,"lstrip":false,"rstrip":false,"special":false,"normalized":null}`
		if want = strings.Replace(want, "+", entries, 1); err != nil || string(got) != want {
			t.Errorf("%s became\n%s, %v; want\n%s", before, got, err, want)
		}
	}
}

// A published tokenizer with new tokens: they are one id each, after all others, and every other text
// has the ids that it had.
func TestAnExtendedTokenizer(t *testing.T) {
	dir := testdata.Shared(t, "data", "tokenizers", "qwen2_5")
	before := load(t, "data", "tokenizers", "qwen2_5")
	after, file, err := Extend(dir, []Word{{"<|think_end|>", true}, {" spoilage-rate", false}, {"<|im_end|>", true}})
	if err != nil {
		t.Fatal(err)
	}
	n := int32(before.VocabSize())
	if got := after.Encode("a<|think_end|>b spoilage-rate<|im_end|>", false); !slices.Contains(got, n) ||
		!slices.Contains(got, n+1) || after.VocabSize() != int(n)+2 || after.Decode(got, true) != "ab spoilage-rate" {
		t.Errorf("ids %v of %d, %q", got, after.VocabSize(), after.Decode(got, true))
	}
	for _, text := range []string{"plain words", "spoilage rate <|im_start|>user\n"} {
		if a, b := after.Encode(text, true), before.Encode(text, true); !slices.Equal(a, b) {
			t.Errorf("%q is %v, was %v", text, a, b)
		}
	}
	again := t.TempDir()
	if err := os.WriteFile(filepath.Join(again, tokenizerFile), file, 0o666); err != nil {
		t.Fatal(err)
	}
	if same, data, err := Extend(again, []Word{{"<|think_end|>", true}}); err != nil ||
		same.VocabSize() != after.VocabSize() ||
		string(data) != string(file) {
		t.Errorf("a token that is there changes something: %v", err)
	}
}
