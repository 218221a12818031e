package metric

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// TestRouge has the examples of Lin's paper (2004, section 3.1), where S2 has 3/4 and S3 2/4.
func TestRouge(t *testing.T) {
	for _, tt := range []struct {
		expected, generated string
		want                float64
	}{
		{"police killed the gunman", "police kill the gunman", 0.75},
		{"police killed the gunman", "the gunman kill police", 0.5},
		{"police killed the gunman", "the gunman police killed", 0.5},
		{"Police killed the gunman.", "police  KILLED: the\tgunman!", 1},
		{"a b c d", "a b", 2 * 0.5 * 1 / 1.5}, // recall 1/2, precision 1
		{"a b", "a b c d", 2 * 0.5 * 1 / 1.5},
		{"", "", 1},
		{"...", "!", 1},
		{"a", "", 0},
		{"", "a", 0},
		{"a b", "c d", 0},
		{"今天天气很好", "今天很好", 2.0 * 1 * (4.0 / 6) / (1 + 4.0/6)},
		{"GPT4今天", "今天 GPT4", 2.0 / 3},
		{"cafe\u0301", "cafe", 0},
		{"x2 y", "x 2 y", 2.0 * (1.0 / 2) * (1.0 / 3) / (1.0/2 + 1.0/3)},
	} {
		if got := Rouge(tt.expected, tt.generated); !(math.Abs(got-tt.want) <= 1e-15) {
			t.Errorf("%q for %q: %g, want %g", tt.generated, tt.expected, got, tt.want)
		}
	}
}

// TestLongestCommon compares with the definition: the longest of all subsequences.
func TestLongestCommon(t *testing.T) {
	texts := []string{"", "a", "ab", "ba", "abcab", "bcabca", "aabbcc", "cbacba"}
	for _, a := range texts {
		for _, b := range texts {
			want := 0
			for bits := range 1 << len(a) {
				var sub strings.Builder
				for i := range a {
					if bits>>i&1 == 1 {
						sub.WriteByte(a[i])
					}
				}
				if s := sub.String(); within(s, b) {
					want = max(want, len(s))
				}
			}
			if got := longestCommon(strings.Split(a, ""), strings.Split(b, "")); got != want {
				t.Errorf("%q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

// within reports whether s is a subsequence of text.
func within(s, text string) bool {
	for _, r := range s {
		i := strings.IndexRune(text, r)
		if i < 0 {
			return false
		}
		text = text[i+1:]
	}
	return true
}

func TestScores(t *testing.T) {
	exact := []Prediction{{Expected: "four", Generated: " four\n"}, {Expected: "four", Generated: "Four"}}
	rouge := []Prediction{{Expected: "a b", Generated: "b"}, {Expected: "a", Generated: "a"}}
	for i := range exact {
		ExactMatch.Judge(&exact[i])
		RougeL.Judge(&rouge[i])
	}
	if m := ExactMatch.Mean(exact); m != 0.5 {
		t.Errorf("exact match %g, want 0.5", m)
	}
	if m, want := RougeL.Mean(rouge), (2.0/3+1)/2; !(math.Abs(m-want) <= 1e-15) {
		t.Errorf("ROUGE-L %g, want %g", m, want)
	}
	// Three right of four tokens, in answers of one and of three.
	if m := TokenAccuracy.Mean([]Prediction{{Score: 0, Tokens: 1}, {Score: 1, Tokens: 3}}); m != 0.75 {
		t.Errorf("token accuracy %g, want 0.75", m)
	}
	if m := ExactMatch.Mean(nil); m != 0 {
		t.Errorf("of nothing %g", m)
	}
}

func TestPartsEndAtThePadding(t *testing.T) {
	r := data.Row{Segments: []int32{1, 1, 2, 3, 3, 0, 0}}
	got := parts(r)
	if len(got) != 3 || got[0] != [2]int{0, 2} || got[1] != [2]int{2, 3} || got[2] != [2]int{3, 5} {
		t.Errorf("%v", got)
	}
}

// TestOnlyASpecialTokenStopsAnAnswer: an answer that is cut after a space is not to end at the model's first space.
func TestOnlyASpecialTokenStopsAnAnswer(t *testing.T) {
	tok, err := tokenizer.Load(testdata.Shared(t, "data", "models", "stories260K"))
	if err != nil {
		t.Fatal(err)
	}
	for token, stops := range map[string]bool{"</s>": true, "\u2581": false} {
		id, ok := tok.TokenID(token)
		if !ok {
			t.Fatalf("there is no token %q", token)
		}
		ids := append(tok.Encode("Once upon a time", true), id)
		labels := slices.Clone(ids)
		labels[0], labels[1] = data.Ignore, data.Ignore
		q, ok := ask(ids, labels, tok)
		if !ok || (len(q.Stop) > 0) != stops {
			t.Errorf("%q: %+v, %v", token, q, ok)
		}
	}
}
