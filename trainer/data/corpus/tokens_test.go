package corpus

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Cut where the assistant's words begin and end, real conversations have the tokens that
// they have whole, but for tokens that would reach over a cut; and what is learned is
// those words, to the letter.
func TestPiecesHaveTheTokensOfTheWhole(t *testing.T) {
	for _, c := range []struct{ tokenizer, template string }{
		{"qwen3", "Qwen-Qwen3-0.6B.jinja"},
		{"qwen2_5", "from_tokenizer_config_qwen2_5.jinja"},
		{"llama3_2", "from_tokenizer_config_llama3_2.jinja"},
		{"glm4", "glm-4-9b-chat.jinja"},
		{"llama2_sentencepiece", "TinyLlama-1.1B-Chat-v1.0.jinja"},
		{"llama2_sentencepiece", "alpaca"},
		{"llama2_sentencepiece", "llama2"},
		{"llama2_sentencepiece", "vicuna"},
		{"gpt2", "default"},
	} {
		t.Run(c.tokenizer+" "+c.template, func(t *testing.T) {
			tok, template := realModel(t, c.tokenizer, c.template)
			for _, e := range conversations(t) {
				spans, err := template.Spans(*e.Chat)
				if err != nil {
					t.Fatal(err)
				}
				checkPieces(t, tok, join(spans))
			}
		})
	}
}

// checkPieces encodes spans, and compares with the text up to the end of each span, encoded
// in one piece.
func checkPieces(t *testing.T, tok *tokenizer.Tokenizer, spans []chat.Span) {
	t.Helper()
	ids, learn := new(pieces).encode(tok, spans)
	text, at := "", 0
	var whole []int32
	clean := true // no token of the whole reaches over a cut
	for _, s := range spans {
		text += s.Text
		for at < len(ids) && learn[at] == s.Learn {
			at++
		}
		before := whole
		whole = tok.Encode(text, false)
		clean = clean && len(before) <= len(whole) && slices.Equal(before, whole[:len(before)])
		if clean && !slices.Equal(ids[:at], whole) {
			t.Fatalf("%q has the tokens %v, as a whole %v", text, ids[:at], whole)
		}
		if got, want := tok.Decode(ids[:at], false), tok.Decode(whole, false); got != want {
			t.Fatalf("%q is the text of the tokens of %q", got, want)
		}
	}
	if at != len(ids) {
		t.Fatalf("%d tokens after the last piece", len(ids)-at)
	}
}

// realModel returns a published tokenizer, and a published or built-in template.
func realModel(t *testing.T, name, template string) (*tokenizer.Tokenizer, *chat.Template) {
	t.Helper()
	dir := testdata.Shared(t, "data", "tokenizers", name)
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for role, id := range map[string]func() (int32, bool){"bos_token": tok.BOS, "eos_token": tok.EOS} {
		if id, ok := id(); ok {
			tokens[role], _ = tok.Token(id)
		}
	}
	if len(tokens) == 0 { // it comes without a tokenizer_config.json
		tokens = map[string]string{"bos_token": "<s>", "eos_token": "</s>"}
	}
	if filepath.Ext(template) == "" {
		return tok, namedTemplate(t, template, tokens)
	}
	text, err := os.ReadFile(testdata.Shared(t, "data", "templates", "jinja", template))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := chat.Parse(template, string(text), tokens)
	if err != nil {
		t.Fatal(err)
	}
	return tok, parsed
}

// namedTemplate returns a built-in template for a model with these special tokens.
func namedTemplate(t *testing.T, name string, tokens map[string]string) *chat.Template {
	t.Helper()
	config := `{"bos_token": "` + tokens["bos_token"] + `", "eos_token": "` + tokens["eos_token"] + `"}`
	parsed, err := chat.Named(name, folder(t, map[string]string{"tokenizer_config.json": config}))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// conversations are the first of several published data sets.
func conversations(t *testing.T) []format.Example {
	t.Helper()
	const each = 40
	var all []format.Example
	for _, name := range []string{"llamafactory/alpaca_en_demo.json", "llamafactory/alpaca_zh_demo.json",
		"fastchat/dummy_conversation.json",
		"gsm8k/test.jsonl", "dolly/dolly_sample_prompt_answer.jsonl"} {
		path := filepath.Join(testdata.Shared(t, "data", "datasets"), filepath.FromSlash(name))
		n := 0
		var l format.Layout
		for r, err := range records.Read(path) {
			if err == nil && n == 0 {
				l, err = format.Detect(format.Auto, r)
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := l.Example(r)
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, e); n == each {
				break
			}
			n++
		}
	}
	return all
}
