package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

func TestAnExampleShowsItsMask(t *testing.T) {
	e := example{Place: "a:1", Tokens: 9, Learned: 2, Pieces: []textPiece{{Text: "<s>", Special: true},
		{Text: "ask\x1b[2J "}, {Text: "say", Learned: true}, {Text: "</s>", Learned: true, Special: true}}}
	for coloured, want := range map[bool]string{
		false: "--- a:1: 9 tokens, 2 learned\n<s>ask\\x1b[2J ⟦say</s>⟧\n\n",
		true:  "--- a:1: 9 tokens, 2 learned\n\x1b[34m<s>\x1b[0mask\\x1b[2J \x1b[1;32msay\x1b[0m\x1b[1;32m</s>\x1b[0m\n\n",
	} {
		var b bytes.Buffer
		e.print(&b, palette(coloured))
		if b.String() != want {
			t.Errorf("coloured %v: %q, want %q", coloured, b.String(), want)
		}
	}
}

// Pieces put together are the text, spaces between them included, whose tokens a
// sentencepiece tokenizer writes without at the beginning of a text.
func TestPiecesAreTheText(t *testing.T) {
	for _, name := range []string{"llama2_sentencepiece", "qwen3"} {
		tok, err := tokenizer.Load(testdata.Shared(t, "data", "tokenizers", name))
		if err != nil {
			t.Fatal(err)
		}
		const text = "Who are you? I am a 🐻‍❄️ bear."
		ids := tok.Encode(text, false)
		for cut := range ids { // wherever learning begins, even inside a character
			learn := make([]bool, len(ids))
			for i := cut; i < len(ids); i++ {
				learn[i] = true
			}
			pieces := piecesOf(tok, ids, learn)
			got := ""
			for _, p := range pieces {
				got += p.Text
			}
			if whole := tok.Decode(ids[:cut], false); cut > 0 && bytes.HasPrefix([]byte(text), []byte(whole)) && got != text {
				t.Errorf("%s, cut at %d: %q", name, cut, got)
			}
			if !slices.ContainsFunc(pieces, func(p textPiece) bool { return p.Learned }) {
				t.Errorf("%s, cut at %d: nothing is learned in %v", name, cut, pieces)
			}
		}
	}
}
