package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// byteModel is a model with one token per byte, ids as the bytes, and the merges of
// "hello" from 256 on.
func byteModel() map[string]any {
	vocab := map[string]int{}
	for b, char := range byteChars {
		vocab[char] = b
	}
	merges := []string{"l l", "h e", "he ll", "hell o", "Ġ hello"}
	for i, m := range merges {
		vocab[strings.ReplaceAll(m, " ", "")] = 256 + i
	}
	for id := len(vocab); id < 300; id++ { // what no text has, so that added tokens begin at a round number
		vocab[fmt.Sprintf("Ġ%d", id)] = id
	}
	return map[string]any{"type": "BPE", "vocab": vocab, "merges": merges}
}

// byteFile is the tokenizer.json of a byte-level tokenizer with three added tokens;
// fields replace or add to its own.
func byteFile(t testing.TB, fields map[string]any) []byte {
	t.Helper()
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false}
	file := map[string]any{
		"model":         byteModel(),
		"pre_tokenizer": byteLevel,
		"decoder":       byteLevel,
		"added_tokens": []map[string]any{
			{"id": 300, "content": "<s>", "special": true},
			{"id": 301, "content": "</s>", "special": true},
			{"id": 302, "content": "<call>"},
		},
	}
	maps.Copy(file, fields)
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parseByteFile(t testing.TB, fields map[string]any) *Tokenizer {
	t.Helper()
	tok, err := Parse("test", byteFile(t, fields))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// writeDir makes a folder with the given files.
func writeDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEncodeAndDecodeAreInverse(t *testing.T) {
	tok := parseByteFile(t, nil)
	text := "hello hello<call> wörld 🦙\n"
	ids := tok.Encode(text, true)
	if want := []int32{259, 260, 302}; !slices.Equal(ids[:3], want) {
		t.Errorf("ids begin with %v, want %v", ids[:3], want)
	}
	if got := tok.Decode(ids, false); got != text {
		t.Errorf("Decode(Encode(%q)) = %q", text, got)
	}
}

func TestDecodeSkipsSpecialAndUnknownIDs(t *testing.T) {
	tok := parseByteFile(t, nil)
	ids := []int32{300, 259, -1, 303, 302, 1 << 30, 301}
	if got, want := tok.Decode(ids, true), "hello<call>"; got != want {
		t.Errorf("without special tokens %q, want %q", got, want)
	}
	if got, want := tok.Decode(ids, false), "<s>hello<call></s>"; got != want {
		t.Errorf("with special tokens %q, want %q", got, want)
	}
}

func TestEncodeReadsBrokenUTF8AsReplacementCharacters(t *testing.T) {
	tok := parseByteFile(t, nil)
	for in, want := range map[string]string{
		"a\xffb":             "a\uFFFDb",
		"\xf0\x9f\x98":       "\uFFFD",
		"\xf0\x9f\x98a":      "\uFFFDa",
		"\xe0\x80\x80":       "\uFFFD\uFFFD\uFFFD",
		"\xf0\x9f\xff\xe4é":  "\uFFFD\uFFFD\uFFFDé",
		"\xed\xa0\x80\uFFFD": "\uFFFD\uFFFD\uFFFD\uFFFD",
	} {
		if got := tok.Decode(tok.Encode(in, false), false); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestVocabularyLookups(t *testing.T) {
	tok := parseByteFile(t, nil)
	if got := tok.VocabSize(); got != 303 {
		t.Errorf("VocabSize() = %d, want 303", got)
	}
	for token, want := range map[string]int32{"Ġhello": 260, "</s>": 301, "!": 33} {
		id, ok := tok.TokenID(token)
		if !ok || id != want {
			t.Errorf("TokenID(%q) = %d, %v; want %d", token, id, ok, want)
		}
		if got, ok := tok.Token(want); !ok || got != token {
			t.Errorf("Token(%d) = %q, %v; want %q", want, got, ok, token)
		}
	}
	if id, ok := tok.TokenID("absent"); ok {
		t.Errorf("TokenID of an absent token = %d", id)
	}
	if token, ok := tok.Token(303); ok {
		t.Errorf("Token(303) = %q", token)
	}
}

func TestEncodeIsSafeForConcurrentUse(t *testing.T) {
	tok := parseByteFile(t, nil)
	text := strings.Repeat("hello hell he <s> world ", 50)
	want := parseByteFile(t, nil).Encode(text, true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := tok.Encode(text, true); !slices.Equal(got, want) {
					t.Error("a concurrent Encode gave other ids")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestLoadReadsRoles(t *testing.T) {
	const none = int32(-1)
	for name, c := range map[string]struct {
		config, special string
		bos, eos, pad   int32
	}{
		"strings": {`{"bos_token": "<s>", "eos_token": "</s>"}`, ``, 300, 301, none},
		"objects": {`{"eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null}`, ``, none, 301,
			none},
		"special tokens map": {``, `{"eos_token": {"content": "<s>"}, "pad_token": "<s>"}`, none, 300, 300},
		"config wins":        {`{"eos_token": "</s>"}`, `{"eos_token": "<s>", "bos_token": "<s>"}`, 300, 301, none},
		"neither":            {``, ``, none, none, none},
		"model token":        {`{"bos_token": "Ġhello"}`, ``, 260, none, none},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{tokenizerFile: string(byteFile(t, nil))}
			if c.config != "" {
				files[configFile] = c.config
			}
			if c.special != "" {
				files[specialTokensFile] = c.special
			}
			tok, err := Load(writeDir(t, files))
			if err != nil {
				t.Fatal(err)
			}
			for i, role := range []func() (int32, bool){tok.BOS, tok.EOS, tok.Pad} {
				want := []int32{c.bos, c.eos, c.pad}[i]
				if id, ok := role(); ok != (want != none) || ok && id != want {
					t.Errorf("role %d: %d, %v; want %d", i, id, ok, want)
				}
			}
		})
	}
}

func TestLoadReportsWhatIsWrong(t *testing.T) {
	good := string(byteFile(t, nil))
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no tokenizer":     {nil, []string{tokenizerFile, "a model's folder needs"}},
		"broken tokenizer": {map[string]string{tokenizerFile: "{"}, []string{tokenizerFile, "JSON"}},
		"broken config":    {map[string]string{tokenizerFile: good, configFile: "["}, []string{configFile, "JSON"}},
		"unknown EOS": {map[string]string{tokenizerFile: good, configFile: `{"eos_token": "<e>"}`},
			[]string{configFile, "eos_token", `"<e>"`, "added_tokens"}},
		"role of wrong type": {map[string]string{tokenizerFile: good, specialTokensFile: `{"pad_token": 3}`},
			[]string{specialTokensFile}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(writeDir(t, c.files))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of an empty folder: %v, want one that is fs.ErrNotExist", err)
	}
}

func TestFilesAreNamesWithoutFolders(t *testing.T) {
	files := Files()
	if !slices.Contains(files, tokenizerFile) || !slices.Contains(files, configFile) {
		t.Errorf("Files() = %v lacks the files that Load reads", files)
	}
	for _, f := range files {
		if f != filepath.Base(f) {
			t.Errorf("%q is not the name of a file", f)
		}
	}
}

// TestAddedTokensAreFoundAsTheConfigurationSays: transformers goes by added_tokens_decoder of tokenizer_config.json
// where tokenizer.json says something else, and adds what that lacks.
func TestAddedTokensAreFoundAsTheConfigurationSays(t *testing.T) {
	const text = "hello <call> hello"
	config := func(tokens string) string { return `{"added_tokens_decoder": {` + tokens + `}}` }
	load := func(config string) (*Tokenizer, string, error) {
		dir := writeDir(t, map[string]string{tokenizerFile: string(byteFile(t, nil)), configFile: config})
		tok, err := Load(dir)
		return tok, dir, err
	}
	for name, tt := range map[string]struct {
		decoder string
		ids     []int32
		text    string
	}{
		"as tokenizer.json": {`"302": {"content": "<call>", "special": false, "normalized": true}`,
			[]int32{259, 32, 302, 260}, "hello <call> hello"},
		"white space with it": {`"302": {"content": "<call>", "lstrip": true, "rstrip": true, "normalized": false}`,
			[]int32{259, 302, 259}, "hello<call>hello"},
		"one of the vocabulary": {`"259": {"content": "hello", "special": true}`,
			[]int32{259, 32, 302, 32, 259}, " <call> "},
	} {
		tok, dir, err := load(config(tt.decoder))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := tok.Encode(text, false); !slices.Equal(got, tt.ids) || tok.Decode(got, true) != tt.text {
			t.Errorf("%s: %v, %q, want %v, %q", name, got, tok.Decode(got, true), tt.ids, tt.text)
		}
		spec, err := LoadSpec(dir)
		if err != nil {
			t.Fatal(err)
		}
		strips := slices.ContainsFunc(spec.Added, func(a AddedToken) bool { return a.ID == 302 && a.Strips })
		if strips != (name == "white space with it") {
			t.Errorf("%s: the token strips white space: %v", name, strips)
		}
	}
	const want = `"<more>" is not there, but in added_tokens_decoder of tokenizer_config.json`
	if _, _, err := load(config(`"303": {"content": "<more>", "special": true}`)); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a token of no vocabulary: %v", err)
	}
}
