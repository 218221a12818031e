package tokenizer

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// unigramOf builds the tokenizer of a vocabulary whose first token is the unknown one.
func unigramOf(t testing.TB, fallback bool, vocab [][]any, fields map[string]any) *Tokenizer {
	t.Helper()
	file := map[string]any{"model": map[string]any{"type": "Unigram", "unk_id": 0, "byte_fallback": fallback,
		"vocab": slices.Concat([][]any{{"<unk>", 0.0}}, vocab)}}
	for name, v := range fields {
		file[name] = v
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse("test", data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestUnigramTakesTheLargestSum(t *testing.T) {
	vocab := [][]any{{"▁", -3.0}, {"a", -2.0}, {"b", -2.5}, {"ab", -4.0}, {"▁a", -4.5}, {"bb", -5.0}, {"ü", -6.0},
		{"<0xC3>", -9.0}, {"<0xA4>", -9.0}}
	tests := []struct {
		text     string
		fallback bool
		want     []int32
	}{
		{"a", false, []int32{5}},             // -4.5, apart -5
		{"ab", false, []int32{1, 4}},         // -7 either way: the last token begins first
		{"aab", false, []int32{5, 4}},        // -8.5, apart -9
		{"abb", false, []int32{5, 6}},        // of -9.5 twice, the token that begins first
		{"aü", false, []int32{5, 7}},         // a character of two bytes
		{"axya", false, []int32{5, 0, 2}},    // neighbours that are unknown
		{"axäya", true, []int32{5, 0, 2}},    // not all of their bytes are tokens
		{"aäa", true, []int32{5, 8, 9, 2}},   // all are
		{"aäa", false, []int32{5, 0, 2}},     // and nobody asks
		{"a a", false, []int32{5, 5}},        // words
		{"a<unk>a", false, []int32{5, 0, 2}}, // the token's own text
		{"", false, nil},
	}
	meta := map[string]any{"pre_tokenizer": map[string]any{"type": "Metaspace"}}
	for _, tt := range tests {
		tok := unigramOf(t, tt.fallback, vocab, meta)
		for range 2 { // once from the cache
			if got := tok.Encode(tt.text, false); !slices.Equal(got, tt.want) {
				t.Errorf("%q, byte fallback %v: %v, want %v", tt.text, tt.fallback, got, tt.want)
			}
		}
	}
}

func TestUnigramBytesBecomeTextAgain(t *testing.T) {
	tok := unigramOf(t, true, [][]any{{"▁a", -1.0}, {"b", -1.0}, {"<0xC3>", -9.0}, {"<0xA4>", -9.0}}, map[string]any{
		"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "Prepend", "prepend": "▁"},
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}}},
		"decoder": map[string]any{"type": "Sequence", "decoders": []any{
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": "▁"}, "content": " "},
			map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"},
			map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0}}}})
	const text = "aäb ab"
	ids := tok.Encode(text, false)
	if want := []int32{1, 3, 4, 2, 1, 2}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
	if got := tok.Decode(ids, false); got != text {
		t.Errorf("%q became %q", text, got)
	}
}

// bruteForce returns the largest sum of scores over all ways to cut a text into tokens, and unknown characters where
// a character is no token.
func bruteForce(m *unigram, text string) float64 {
	if text == "" {
		return 0
	}
	most := math.Inf(-1)
	for _, token := range m.sorted {
		if len(token.text) <= len(text) && text[:len(token.text)] == token.text {
			most = max(most, token.score+bruteForce(m, text[len(token.text):]))
		}
	}
	_, n := utf8.DecodeRuneInString(text)
	if _, ok := m.vocab[text[:n]]; !ok {
		most = max(most, m.unknown+bruteForce(m, text[n:]))
	}
	return most
}

// checkBest fails unless the model's way has the largest sum, and is one.
func checkBest(t *testing.T, m *unigram, text string) {
	t.Helper()
	best, sum := m.best(text), 0.0
	for end := len(text); end > 0; end = best[end].from {
		s := best[end]
		switch piece := text[s.from:end]; {
		case s.id < 0 && utf8.RuneCountInString(piece) == 1:
			sum += m.unknown
		case s.id >= 0 && m.vocab[piece] == s.id:
			i := slices.IndexFunc(m.sorted, func(t scored) bool { return t.text == piece })
			sum += m.sorted[i].score
		default:
			t.Fatalf("%q: %q is given the id %d", text, piece, s.id)
		}
	}
	if want := bruteForce(m, text); !(math.Abs(sum-want) <= 1e-9) {
		t.Errorf("%q: the sum is %v, the largest is %v", text, sum, want)
	}
}

func TestUnigramIsTheBestOfAllWays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []string{"a", "b", "ü", "日"}
	word := func(most int) (s string) {
		for range 1 + rng.IntN(most) {
			s += letters[rng.IntN(len(letters))]
		}
		return s
	}
	for range 200 {
		vocab, seen := [][]any{}, map[string]bool{}
		for range 1 + rng.IntN(12) {
			if w := word(4); !seen[w] {
				vocab, seen[w] = append(vocab, []any{w, -float64(rng.IntN(40)) / 4}), true
			}
		}
		m := unigramOf(t, false, vocab, nil).model.(*unigram)
		for range 5 {
			checkBest(t, m, word(9))
		}
	}
}

// FuzzUnigram cuts any short text by a small vocabulary.
func FuzzUnigram(f *testing.F) {
	m := unigramOf(f, true, [][]any{{"a", -1.0}, {"aa", -1.5}, {"ab", -3.0}, {"ba", -0.5}, {"üa", -2.0},
		{"<0x0A>", -8.0}}, nil).model.(*unigram)
	for _, seed := range []string{"", "aaba", "bab", "aüa\nb", "<0x0A>", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text = lossyUTF8(text); utf8.RuneCountInString(text) > 12 {
			return
		}
		checkBest(t, m, text)
		for _, id := range m.encode(nil, text) {
			if id < 0 || int(id) >= len(m.vocab) {
				t.Errorf("%q has the id %d", text, id)
			}
		}
	})
}
