package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
)

// components is testdata/components.json: small tokenizers that differ in one
// component each, and what Hugging Face's Rust library makes of some texts with
// each of them; its field "generator" names the exact library.
type components struct {
	Texts    []string
	Models   map[string]map[string]any
	Variants []struct {
		Name      string
		Model     string         // a key of Models
		Flags     map[string]any // differences from that
		Tokenizer map[string]any // tokenizer.json without the model
		Cases     []componentCase
		Decodes   []struct {
			IDs        []int32
			All, Plain string // with and without special tokens
		}
	}
}

// componentCase is what becomes of one of the texts.
type componentCase struct {
	IDs     []int32
	Special []int32 // with special tokens; absent where equal to IDs
	Decoded string
}

// readComponents reads the file.
func readComponents(t testing.TB) *components {
	t.Helper()
	data, err := os.ReadFile("testdata/components.json")
	if err != nil {
		t.Fatal(err)
	}
	c := new(components)
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// build puts the i-th tokenizer together.
func (c *components) build(t testing.TB, i int) *Tokenizer {
	t.Helper()
	v := c.Variants[i]
	model := maps.Clone(c.Models[v.Model])
	maps.Copy(model, v.Flags)
	file := maps.Clone(v.Tokenizer)
	file["model"] = model
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(v.Name, data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestComponentsActLikeHuggingFace(t *testing.T) {
	c := readComponents(t)
	for i, v := range c.Variants {
		t.Run(v.Name, func(t *testing.T) {
			tok := c.build(t, i)
			if len(v.Cases) != len(c.Texts) {
				t.Fatalf("%d cases for %d texts", len(v.Cases), len(c.Texts))
			}
			for j, want := range v.Cases {
				checkComponent(t, tok, c.Texts[j], want)
			}
			for _, d := range v.Decodes {
				if got := tok.Decode(d.IDs, false); got != d.All {
					t.Errorf("Decode(%v, false)\n got %q\nwant %q", d.IDs, got, d.All)
				}
				if got := tok.Decode(d.IDs, true); got != d.Plain {
					t.Errorf("Decode(%v, true)\n got %q\nwant %q", d.IDs, got, d.Plain)
				}
			}
		})
	}
}

func checkComponent(t *testing.T, tok *Tokenizer, text string, want componentCase) {
	t.Helper()
	if got := tok.Encode(text, false); !slices.Equal(got, want.IDs) {
		t.Errorf("Encode(%q, false)\n got %v %q\nwant %v %q", text, got, tokens(tok, got), want.IDs, tokens(tok, want.IDs))
	}
	special := want.IDs
	if want.Special != nil {
		special = want.Special
	}
	if got := tok.Encode(text, true); !slices.Equal(got, special) {
		t.Errorf("Encode(%q, true)\n got %v\nwant %v", text, got, special)
	}
	if got := tok.Decode(want.IDs, false); got != want.Decoded {
		t.Errorf("Decode(%v, false)\n got %q\nwant %q", want.IDs, got, want.Decoded)
	}
}

// tokens spells ids out, for messages.
func tokens(tok *Tokenizer, ids []int32) (list []string) {
	for _, id := range ids {
		token, _ := tok.Token(id)
		list = append(list, token)
	}
	return list
}
