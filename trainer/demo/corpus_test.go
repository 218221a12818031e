package demo

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seed98097648/tune/trainer/tokenizer"
)

func TestRulesAreThoseOfEnglish(t *testing.T) {
	for _, tt := range []struct{ word, plural, past string }{
		{"walk", "walks", "walked"},
		{"stop", "stops", "stopped"},
		{"visit", "visits", "visited"},
		{"bake", "bakes", "baked"},
		{"try", "tries", "tried"},
		{"carry", "carries", "carried"},
		{"play", "plays", "played"},
		{"row", "rows", "rowed"},
		{"box", "boxes", "boxed"},
		{"kiss", "kisses", "kissed"},
		{"buzz", "buzzes", "buzzed"},
		{"fish", "fishes", "fished"},
		{"watch", "watches", "watched"},
		{"mend", "mends", "mended"},
		{"rain", "rains", "rained"},
	} {
		if got := plural(tt.word); got != tt.plural {
			t.Errorf("plural of %s: %s, want %s", tt.word, got, tt.plural)
		}
		if got := past(tt.word); got != tt.past {
			t.Errorf("past of %s: %s, want %s", tt.word, got, tt.past)
		}
	}
}

func TestCorpusIsAlwaysTheSame(t *testing.T) {
	train, held := corpus()
	train2, held2 := corpus()
	if !reflect.DeepEqual(train, train2) || !reflect.DeepEqual(held, held2) {
		t.Error("two corpora differ")
	}
	if len(train) != 2*trainWords || len(held) != 2*heldWords+len(berko()) {
		t.Errorf("%d examples to train on, %d held out", len(train), len(held))
	}
}

func TestNoHeldOutWordIsTrainedOn(t *testing.T) {
	word := func(e Example) string { return strings.TrimSuffix(strings.Fields(e.Prompt)[1], ",") }
	train, held := corpus()
	trained, prompts := map[string]bool{}, map[string]bool{}
	for _, e := range train {
		trained[word(e)] = true
	}
	for _, e := range held {
		if trained[word(e)] {
			t.Errorf("%q is held out, and trained on", word(e))
		}
	}
	for _, e := range append(train, held...) {
		if prompts[e.Prompt] {
			t.Errorf("%q is there twice", e.Prompt)
		}
		prompts[e.Prompt] = true
	}
}

func TestTokenizerReadsTheWholeCorpus(t *testing.T) {
	text, err := files.ReadFile("model/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse("tokenizer.json", text)
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	train, held := corpus()
	for _, e := range append(train, held...) {
		text := e.Prompt + e.Want
		ids := tok.Encode(text, true)
		if got := tok.Decode(ids, true); got != text || len(ids) != len(text)+1 {
			t.Fatalf("%q is read as %v and written as %q", text, ids, got)
		}
		longest = max(longest, len(ids)+1)
	}
	if longest != longestExample {
		t.Errorf("the longest example has %d tokens, not %d", longest, longestExample)
	}
}
