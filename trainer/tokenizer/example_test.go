package tokenizer_test

import (
	"fmt"
	"log"

	"github.com/seed98097648/tune/trainer/tokenizer"
)

// A real tokenizer is read with Load; this one is spelt out to be small.
func Example() {
	t, err := tokenizer.Parse("tokenizer.json", []byte(`{
		"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
		"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
		"model": {
			"type": "BPE",
			"vocab": {"<s>": 0, "a": 1, "b": 2, "▁": 3, "ab": 4, "▁ab": 5},
			"merges": ["a b", "▁ ab"]
		},
		"post_processor": {
			"type": "TemplateProcessing",
			"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
			"special_tokens": {"<s>": {"ids": [0]}}
		},
		"decoder": {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
	}`))
	if err != nil {
		log.Fatal(err)
	}
	ids := t.Encode("ab ab ba", true)
	fmt.Println(ids)
	fmt.Println(t.Decode(ids, true))
	// Output:
	// [0 4 5 3 2 1]
	// ab ab ba
}

// A character may have several tokens. A stream gives it out when it is whole.
func ExampleTokenizer_Stream() {
	t, err := tokenizer.Parse("tokenizer.json", []byte(`{
		"model": {"type": "BPE", "vocab": {"Ġ": 0, "ä": 1, "½": 2, "ł": 3, "!": 4}, "merges": []},
		"decoder": {"type": "ByteLevel"}
	}`))
	if err != nil {
		log.Fatal(err)
	}
	s := t.Stream(true)
	for _, id := range []int32{4, 0, 1, 2, 3, 4} {
		fmt.Printf("%q ", s.Next(id))
	}
	fmt.Printf("%q\n", s.End())
	// Output:
	// "!" " " "" "" "你" "!" ""
}
