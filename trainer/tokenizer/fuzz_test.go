package tokenizer

import (
	"encoding/base64"
	"testing"
	"unicode/utf8"
)

// FuzzParse feeds hostile files: none may panic, and what is accepted must encode
// and decode a text without panic. The text is short, for a regular expression that
// the fuzzer made up may take exponential time.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{"model":null}`, `{"model":{"vocab":{"a":0},"merges":[]}}`, `{"model":{"vocab":{"\\u":0}}}`,
		`{"model":{"vocab":{"a":0,"aa":1},"merges":["a a"]},"normalizer":{"type":"Prepend","prepend":"a"},` +
			`"decoder":{"type":"ByteFallback"}}`,
		`{"model":{"vocab":{"a":0},"merges":[["a","a"]],"byte_fallback":true},"added_tokens":[null,{"content":"a",` +
			`"lstrip":true}]}`,
		`{"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0],["a",-1],["aa",-1.5],` +
			`["<0x0A>",-9]]},"pre_tokenizer":{"type":"Metaspace"},` +
			`"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"}]}}`,
		`{"model":{"vocab":{"▁":0},"merges":[]},"pre_tokenizer":{"type":"Metaspace"},"decoder":{"type":"Metaspace"}}`,
		`{"model":{"vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},` +
			`"behavior":"MergedWithNext","invert":true}}`,
		`{"model":{"vocab":{"Ġ":0},"merges":[]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",` +
			`"pattern":{"Regex":"\\s+(?!\\S)"},"behavior":"Isolated"},{"type":"ByteLevel"}]},"decoder":{"type":"ByteLevel"}}`,
		`{"model":{"vocab":{"a":0},"merges":[]},"post_processor":{"type":"TemplateProcessing",` +
			`"single":[{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"e"}}],"special_tokens":{"e":{"ids":[1]}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		tok.Decode([]int32{0, 1, -1, int32(tok.VocabSize())}, true)
		tok.Encode("a aa\n<s> 日1", true)
	})
}

// FuzzCharsmap feeds hostile rules of a SentencePiece model: what is accepted rewrites any text without panic.
func FuzzCharsmap(f *testing.F) {
	for _, rules := range []map[string]string{{"a": "b"}, someRules} {
		data, err := base64.StdEncoding.DecodeString(encodeRules(rules))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "a\u0301 \r\n\uff76\uff9e")
	}
	f.Add([]byte{4, 0, 0, 0, 'a', 1, 0, 0}, "a")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		rules, err := newCharsmap(base64.StdEncoding.EncodeToString(data))
		if err == nil {
			rules.normalize(lossyUTF8(text))
		}
	})
}

// FuzzRoundTrip checks that a byte-level tokenizer loses nothing of a text.
func FuzzRoundTrip(f *testing.F) {
	tok := parseByteFile(f, nil)
	for _, seed := range []string{"", "hello hello", "<s>x</s> <call>", "a\u0301\u200d🦙\r\n \t", "\x00\xff\xf0\x9f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text, false)
		for _, id := range ids {
			if _, ok := tok.Token(id); !ok {
				t.Fatalf("Encode(%q) has the id %d, which no token has", text, id)
			}
		}
		got := tok.Decode(ids, false)
		if want := lossyUTF8(text); got != want {
			t.Errorf("Decode(Encode(%q)) = %q, want %q", text, got, want)
		}
		if utf8.ValidString(text) && got != text {
			t.Errorf("a valid text %q came back as %q", text, got)
		}
	})
}
