package tokenizer

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// object is a JSON object written out.
type object = map[string]any

func TestParseRefusesWhatItDoesNotSupport(t *testing.T) {
	split := func(fields object) object {
		s := object{"type": "Split", "behavior": "Isolated", "pattern": object{"String": "-"}}
		maps.Copy(s, fields)
		return s
	}
	model := func(fields object) object {
		m := byteModel()
		maps.Copy(m, fields)
		return m
	}
	template := func(single ...object) object {
		return object{"type": "TemplateProcessing", "single": single,
			"special_tokens": object{"<s>": object{"ids": []int{300}}, "<n>": object{"ids": []int{-2}}}}
	}
	text := object{"Sequence": object{"id": "A"}}
	added := func(fields object) []object {
		a := object{"id": 400, "content": "<x>"}
		maps.Copy(a, fields)
		return []object{a}
	}
	for name, c := range map[string]struct {
		field string
		value any
		want  string // in the error
	}{
		"normalizer type": {"normalizer", object{"type": "BertNormalizer"},
			`normalizer.type: "BertNormalizer" is not supported; supported: NFC,`},
		"nested normalizer": {"normalizer",
			object{"type": "Sequence", "normalizers": []object{{"type": "NFC"}, {"type": "Nmt"}}},
			`normalizer.normalizers[1].type: "Nmt"`},
		"prepend of nothing": {"normalizer", object{"type": "Prepend"}, `normalizer.prepend is absent`},
		"replace by nothing": {"normalizer", object{"type": "Replace", "pattern": object{"String": "a"}},
			`normalizer.content is absent`},
		"replace of nothing": {"normalizer", object{"type": "Replace", "pattern": object{"String": ""}, "content": "x"},
			`normalizer.pattern is absent or empty`},
		"pre-tokenizer type": {"pre_tokenizer", object{"type": "BertPreTokenizer"},
			`pre_tokenizer.type: "BertPreTokenizer" is not supported`},
		"nested pre-tokenizer": {"pre_tokenizer",
			object{"type": "Sequence", "pretokenizers": []object{{"type": "UnicodeScripts"}}},
			`pre_tokenizer.pretokenizers[0].type: "UnicodeScripts"`},
		"split behavior": {"pre_tokenizer", split(object{"behavior": "Sideways"}),
			`pre_tokenizer.behavior: "Sideways" is not supported; supported: Removed,`},
		"split without pattern": {"pre_tokenizer", split(object{"pattern": nil}), `pre_tokenizer.pattern is absent`},
		"broken regex": {"pre_tokenizer", split(object{"pattern": object{"Regex": "("}}),
			`pre_tokenizer.pattern.Regex: "("`},
		"regex of other dialect": {"pre_tokenizer", split(object{"pattern": object{"Regex": `\w+`}}),
			`"\\w" at byte 0 is not supported`},
		"long replacement": {"pre_tokenizer", object{"type": "Metaspace", "replacement": "__"},
			`pre_tokenizer.replacement: "__"`},
		"prepend scheme": {"pre_tokenizer", object{"type": "Metaspace", "prepend_scheme": "maybe"},
			`pre_tokenizer.prepend_scheme: "maybe"`},
		"contradicting metaspace": {"decoder", object{"type": "Metaspace", "prepend_scheme": "first",
			"add_prefix_space": false}, `add_prefix_space is false and prepend_scheme is "first"`},
		"model type": {"model", model(object{"type": "WordPiece"}),
			`model.type: "WordPiece" is not supported; supported: BPE, Unigram`},
		"unigram without scores": {"model", object{"type": "Unigram", "unk_id": 0, "vocab": object{"a": 1}},
			`field model.vocab: want a list, have an object`},
		"unigram without a score": {"model", object{"type": "Unigram", "unk_id": 0, "vocab": []any{[]any{"a"}}},
			`model.vocab[0] is not a token and its score`},
		"unigram token twice": {"model", object{"type": "Unigram", "unk_id": 0,
			"vocab": []any{[]any{"a", -1}, []any{"a", -2}}}, `model.vocab[1]: "a" is there twice`},
		"unigram without unknown": {"model", object{"type": "Unigram", "vocab": []any{[]any{"a", -1}}},
			`model.unk_id is absent`},
		"unigram of another unknown": {"model", object{"type": "Unigram", "unk_id": 1, "vocab": []any{[]any{"a", -1}}},
			`model.unk_id is 1, and there are 1 tokens`},
		"no merges":     {"model", object{"vocab": object{"a": 0}}, `model.merges is absent`},
		"no vocabulary": {"model", object{"merges": []string{}}, `model.vocab is absent`},
		"vocabulary as a list": {"model", model(object{"vocab": []int{1}}),
			`field model.vocab: want an object, have a list`},
		"fractional id": {"model", model(object{"vocab": object{"a": 1.5}}),
			`field model.vocab: want a whole number, have 1.5`},
		"huge id": {"model", model(object{"vocab": object{"a": 1 << 31}}),
			`field model.vocab: want a whole number of at most 2147483647, have 2147483648`},
		"negative id": {"model", object{"vocab": object{"a": -1}, "merges": []string{}},
			`token "a" has the negative id -1`},
		"shared id": {"model", object{"vocab": object{"a": 1, "b": 1}, "merges": []string{}},
			`have the same id 1`},
		"dropout": {"model", model(object{"dropout": 0.1}), `model.dropout: "0.1" is not supported`},
		"subword prefix": {"model", model(object{"continuing_subword_prefix": "##"}),
			`model.continuing_subword_prefix: "##"`},
		"word suffix": {"model", model(object{"end_of_word_suffix": "</w>"}),
			`model.end_of_word_suffix: "</w>"`},
		"unknown unk": {"model", model(object{"unk_token": "<u>"}),
			`model.unk_token: "<u>" is not in the vocabulary`},
		"merge of three": {"model", model(object{"merges": []string{"a b c"}}),
			`model.merges[0]: "a b c" is not two tokens`},
		"merge of one": {"model", model(object{"merges": [][]string{{"a"}}}), `model.merges[0]`},
		"merge of numbers": {"model", model(object{"merges": []int{5}}),
			`field model.merges: want a string, have a number`},
		"merges as a string": {"model", model(object{"merges": "a b"}),
			`field model.merges: want a list, have a string`},
		"merge to no token": {"model", model(object{"merges": []string{"a b"}}),
			`model.merges[0]: ["a" "b"]: both parts and the whole`},
		"post-processor type": {"post_processor", object{"type": "BertProcessing"},
			`post_processor.type: "BertProcessing"`},
		"nested post-processor": {"post_processor",
			object{"type": "Sequence", "processors": []object{{"type": "RobertaProcessing"}}},
			`post_processor.processors[0].type`},
		"template without text": {"post_processor", template(), `post_processor.single: the text`},
		"template with two texts": {"post_processor", template(text, text),
			`post_processor.single[1]: the text stands twice`},
		"template of pairs": {"post_processor", template(object{"Sequence": object{"id": "B"}}),
			`post_processor.single[0]: Sequence.id: "B"`},
		"template part": {"post_processor", template(object{"Other": 1}),
			`post_processor.single[0]: supported: Sequence, SpecialToken`},
		"unnamed special": {"post_processor", template(text, object{"SpecialToken": object{"id": "<e>"}}),
			`"<e>" is not among special_tokens`},
		"special without id": {"post_processor", template(text, object{"SpecialToken": object{"id": "<n>"}}),
			`"<n>" has the id -2, which no token has`},
		"decoder type": {"decoder", object{"type": "WordPiece"}, `decoder.type: "WordPiece"`},
		"nested decoder": {"decoder", object{"type": "Sequence",
			"decoders": []object{{"type": "Fuse"}, {"type": "CTC"}}}, `decoder.decoders[1].type: "CTC"`},
		"strip decoder": {"decoder", object{"type": "Strip", "content": "ab"},
			`decoder.content is not a single character`},
		"replace decoder":   {"decoder", object{"type": "Replace", "content": "x"}, `decoder.pattern is absent`},
		"empty added token": {"added_tokens", added(object{"content": ""}), `added_tokens[0].content is empty`},
		"negative added token": {"added_tokens", added(object{"id": -4}),
			`added_tokens[0]: token "<x>" has the negative id -4`},
		"moved added token": {"added_tokens", added(object{"content": "h"}),
			`token "h" has id 400 here and 104 elsewhere`},
		// tokenizers: tokenizer/added_vocabulary.rs, AddedVocabulary.add_tokens, which loading a file calls, too
		"added token behind a gap": {"added_tokens", added(nil),
			`added_tokens[0]: token "<x>" has id 400, but Hugging Face's library gives it the next one, 300`},
		"added tokens out of order": {"added_tokens", append(added(object{"content": "<y>", "id": 300}),
			added(object{"id": 302})...), `added_tokens[1]: token "<x>" has id 302, but Hugging Face's library gives ` +
			`it the next one, 301`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("dir/tokenizer.json", byteFile(t, object{c.field: c.value}))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tokenizer: dir/tokenizer.json: ") {
				t.Errorf("error is\n%v\nand lacks\n%s", err, c.want)
			}
		})
	}
}

func TestParseReadsOldFilesWithoutModelType(t *testing.T) {
	model := byteModel()
	delete(model, "type")
	model["unk_token"] = ""
	if _, err := Parse("test", byteFile(t, object{"model": model})); err != nil {
		t.Error(err)
	}
}

func TestParseFindsUnkAmongAddedTokens(t *testing.T) {
	file := `{"model": {"unk_token": "<s>", "vocab": {"a": 0}, "merges": []}, "added_tokens": [{"id": 1, "content": ` +
		`"<s>"}]}`
	tok, err := Parse("test", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("aba", false); len(got) != 3 || got[1] != 1 {
		t.Errorf("ids %v, want [0 1 0]", got)
	}
}

func TestMergesReadBothForms(t *testing.T) {
	for _, data := range []string{`["a b", "\" \\"]`, `[["a","b"] , [ "\"", "\\" ]]`,
		" [\n\t[\"a\",\"b\"],[\"\\\"\",\"\\\\\"]]"} {
		var got mergeList
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Fatal(err)
		}
		want := mergeList{{"a", "b"}, {`"`, `\`}}
		if !slices.Equal(got, want) {
			t.Errorf("%s read as %q", data, got)
		}
	}
}

func TestOnlyOrdinaryAddedTokensAreNormalizedByDefault(t *testing.T) {
	tok := parseByteFile(t, object{
		"normalizer": object{"type": "Lowercase"},
		"added_tokens": []object{
			{"id": 300, "content": "<S>", "special": true},
			{"id": 301, "content": "<T>"},
			{"id": 302, "content": "<U>", "normalized": false},
		},
	})
	for text, want := range map[string]int{"<S>": 1, "<s>": 3, "<T>": 1, "<t>": 1, "<U>": 1, "<u>": 3} {
		if got := tok.Encode(text, false); len(got) != want {
			t.Errorf("Encode(%q) = %v, want %d ids", text, got, want)
		}
	}
}
