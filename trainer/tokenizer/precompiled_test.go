package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// doubleArray builds a trie of texts and their values; see charsmap.
type doubleArray struct {
	units []uint32
	taken map[int]bool // units, and nodes
	nodes map[int]bool
}

// node gives the node below unit at the ways on of sorted keys, which begin alike up to from.
func (d *doubleArray) node(at, from int, keys []string, value func(key string) int) {
	var labels []byte // 0 for a text that ends here
	for _, k := range keys {
		b := byte(0)
		if len(k) > from {
			b = k[from]
		}
		if len(labels) == 0 || labels[len(labels)-1] != b {
			labels = append(labels, b)
		}
	}
	node := 1
	for d.nodes[node] || slices.ContainsFunc(labels, func(b byte) bool { return d.taken[node^int(b)] }) {
		node++
	}
	d.nodes[node] = true
	d.unit(at, uint32(at^node)<<10)
	for _, b := range labels {
		d.taken[node^int(b)] = true
	}
	for _, b := range labels {
		below := slices.DeleteFunc(slices.Clone(keys), func(k string) bool {
			return b == 0 && len(k) > from || b > 0 && (len(k) <= from || k[from] != b)
		})
		if b == 0 {
			d.unit(at, 1<<8)
			d.unit(node, 1<<31|uint32(value(below[0])))
			continue
		}
		d.unit(node^int(b), uint32(b))
		d.node(node^int(b), from+1, below, value)
	}
}

// unit sets bits of a unit.
func (d *doubleArray) unit(at int, bits uint32) {
	d.units = append(d.units, make([]uint32, max(0, at|255+1-len(d.units)))...)
	d.units[at] |= bits
}

// encodeRules returns the field of a file with such rules.
func encodeRules(rules map[string]string) string {
	var texts strings.Builder
	starts := map[string]int{}
	for _, from := range slices.Sorted(maps.Keys(rules)) {
		starts[from] = texts.Len()
		texts.WriteString(rules[from] + "\x00")
	}
	d := &doubleArray{taken: map[int]bool{0: true}, nodes: map[int]bool{}}
	d.node(0, 0, slices.Sorted(maps.Keys(rules)), func(key string) int { return starts[key] })
	data := binary.LittleEndian.AppendUint32(nil, uint32(4*len(d.units)))
	for _, u := range d.units {
		data = binary.LittleEndian.AppendUint32(data, u)
	}
	return base64.StdEncoding.EncodeToString(append(data, texts.String()...))
}

// someRules are like those that SentencePiece calls nmt_nfkc.
var someRules = map[string]string{"\ufb01": "fi", "\u2460": "1", "\u2167": "VIII", "\u00a0": " ", "\t": " ", "\r": " ",
	"\u200b": "", "\ufeff": "", "\u00ad": "", "\u212b": "\u00c5", "A\u030a": "\u00c5", "a\u0301": "\u00e1", "e": "E",
	"e\u0301": "\u00e9", "\u0327": "\u00b8", "\uff76\uff9e": "\u30ac", "\uff76": "\u30ab", "\U0001d53e": "G",
	"\u0627\u0653": "\u0622", "\r\n": "\n", "\u1100\u1161": "\uac00"}

// ruleFile is a byte-level tokenizer without merges, whose tokens say what the normalizer has made of a text.
func ruleFile(t testing.TB, charsmap any) []byte {
	t.Helper()
	vocab := map[string]int{}
	for b := range 256 {
		vocab[byteChars[b]] = b
	}
	data, err := json.Marshal(map[string]any{"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"normalizer":    map[string]any{"type": "Precompiled", "precompiled_charsmap": charsmap},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
		"decoder":       map[string]any{"type": "ByteLevel"}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRulesOfSentencePieceRewriteATextByCharacters(t *testing.T) {
	tok, err := Parse("test", ruleFile(t, encodeRules(someRules)))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                "",
		"plain":                           "plain",
		"\ufb01n \u2460\u2167":            "fin 1VIII",
		"x\u200by\ufeff\u00adz\t!":        "xyz !",
		"\U0001d53e \uff76":               "G \u30ab",
		"a\u0301b":                        "\u00e1b",
		"e\u0301":                         "E",                   // the shortest rule is for all of the character
		"a\u0301\u0301\u0301":             "a\u0301\u0301\u0301", // 7 bytes are looked up one by one
		"\u212b\u0327":                    "\u00c5",              // 5 bytes
		"\u212b\u0327\u0327":              "\u00c5\u00b8\u00b8",  // 7
		"\uff76\uff9e":                    "\u30ab\uff9e",        // 6
		"\r\n":                            " ",                   // one character, whose beginning has a rule
		"\u1100\u1161":                    "\u1100\u1161",
		"\u0627\u0653":                    "\u0622",
		"a\x00\u0301":                     "a\x00\u0301",
		"A\u030aA\u030a\u0301\u0301":      "\u00c5A\u030a\u0301\u0301",
		"\u65e5e \U0001f642\u200d\u2195!": "\u65e5E \U0001f642\u200d\u2195!",
	} {
		if got := tok.Decode(tok.Encode(text, false), false); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestBrokenRulesOfSentencePieceAreRefused(t *testing.T) {
	whole, err := base64.StdEncoding.DecodeString(encodeRules(map[string]string{"a": "é"}))
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(b []byte) []byte) string {
		return base64.StdEncoding.EncodeToString(f(slices.Clone(whole)))
	}
	size := int(binary.LittleEndian.Uint32(whole))
	value := slices.IndexFunc(whole[4:4+size], func(b byte) bool { return b == 0x80 }) + 4 - 3
	for name, tt := range map[string]struct {
		charsmap any
		want     string
	}{
		"none":            {nil, "is absent"},
		"no base64":       {"*", "illegal base64"},
		"nothing":         {"", "it has 0 bytes"},
		"no trie":         {"AAAAAA==", "have 0 bytes"},
		"half a unit":     {change(func(b []byte) []byte { b[0] += 2; return b }), "4 for each unit"},
		"a cut trie":      {change(func(b []byte) []byte { return b[:size] }), "of the"},
		"no UTF-8":        {change(func(b []byte) []byte { return append(b, 0xff) }), "not UTF-8"},
		"beyond the end":  {change(func(b []byte) []byte { b[value] = 9; return b }), "begins at byte 9 of 3"},
		"in a character":  {change(func(b []byte) []byte { b[value] = 1; return b }), "begins at byte 1 of 3"},
		"beyond the trie": {change(func(b []byte) []byte { return beyond(b) }), "ends at unit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.json", ruleFile(t, tt.charsmap))
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "x.json: normalizer.precompiled_charsmap") {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// beyond gives the unit of "a" an offset that leads out of the trie.
func beyond(b []byte) []byte {
	root := binary.LittleEndian.Uint32(b[4:]) >> 10
	at := 4 + 4*int(root^'a')
	binary.LittleEndian.PutUint32(b[at:], 1<<30|1<<8|'a')
	return b
}

// TestRulesOfSentencePieceRewriteAsHuggingFacesLibrary reads what that made of texts.
func TestRulesOfSentencePieceRewriteAsHuggingFacesLibrary(t *testing.T) {
	var recorded struct {
		Charsmap string
		Texts    [][2]string
	}
	data, err := os.ReadFile("testdata/precompiled.json")
	if err == nil {
		err = json.Unmarshal(data, &recorded)
	}
	if err != nil || len(recorded.Texts) == 0 {
		t.Fatal(err, len(recorded.Texts))
	}
	tok, err := Parse("test", ruleFile(t, recorded.Charsmap))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range recorded.Texts {
		if got := tok.Decode(tok.Encode(c[0], false), false); got != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
}
