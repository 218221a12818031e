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

	"github.com/seed98097648/tune/internal/plainjson"
)

// beside is what the files beside tokenizer.json say of how a text is cut.
type beside struct {
	decoder     []addedToken // added_tokens_decoder, in the order of the ids
	special     []namedToken // what transformers adds as special tokens where the others lack them
	prefixSpace *bool        // add_prefix_space; nil where it is not said
}

// namedToken is a token that a field of a file gives a role.
type namedToken struct {
	addedToken
	field, file string
}

// readBeside reads tokenizer_config.json and special_tokens_map.json of a folder, which may have neither.
func readBeside(dir string) (b beside, err error) {
	config, err := readFields(dir, configFile)
	if err != nil {
		return b, err
	}
	var c struct {
		Decoder     map[int32]addedToken `json:"added_tokens_decoder"`
		Split       bool                 `json:"split_special_tokens"`
		PrefixSpace *bool                `json:"add_prefix_space"`
	}
	if err := config.read(&c); err != nil {
		return b, err
	}
	if c.Split {
		return b, fmt.Errorf("%s: split_special_tokens true is not supported: special tokens in a text are always "+
			"found; set it to false", config.path)
	}
	b.prefixSpace = c.PrefixSpace
	for _, id := range slices.Sorted(maps.Keys(c.Decoder)) {
		b.decoder = append(b.decoder, c.Decoder[id])
	}
	older, err := readFields(dir, specialTokensFile)
	if err != nil {
		return b, err
	}
	for _, field := range specialFields {
		from := config
		if _, there := config.all[field]; !there {
			from = older
		}
		tokens, err := from.tokens(field)
		if err != nil {
			return b, err
		}
		b.special = append(b.special, tokens...)
	}
	return b, nil
}

// specialFields name special tokens: one each, and those of a list, or of an object by roles of their own.
var specialFields = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token",
	"mask_token", "additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"}

// fieldsOf are the fields of a JSON file.
type fieldsOf struct {
	path string
	data []byte
	all  map[string]json.RawMessage
}

// readFields reads a file that may be absent.
func readFields(dir, name string) (f fieldsOf, err error) {
	f.path = filepath.Join(dir, name)
	f.data, err = os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.data = []byte("{}")
	} else if err != nil {
		return f, err
	}
	return f, f.read(&f.all)
}

func (f fieldsOf) read(into any) error {
	if err := plainjson.Unmarshal(f.data, into); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

// tokens returns those that a field names, which is a token, a list or an object of tokens.
func (f fieldsOf) tokens(field string) (tokens []namedToken, err error) {
	values := []json.RawMessage{f.all[field]}
	if strings.HasSuffix(field, "_tokens") && values[0] != nil {
		var named map[string]json.RawMessage
		if values = nil; json.Unmarshal(f.all[field], &values) != nil {
			if err := json.Unmarshal(f.all[field], &named); err != nil {
				return nil, fmt.Errorf("%s: field %s: want a list or an object of tokens", f.path, field)
			}
		}
		for _, role := range slices.Sorted(maps.Keys(named)) {
			values = append(values, named[role])
		}
	}
	for _, value := range values {
		t := namedToken{field: field, file: filepath.Base(f.path)}
		text := json.Unmarshal(value, &t.Content) == nil
		if value == nil || string(value) == "null" {
			continue
		}
		if err := json.Unmarshal(value, &t.addedToken); err != nil && !text {
			return nil, fmt.Errorf("%s: field %s: want a token, as a string or as an object with content", f.path,
				field)
		}
		if t.Special = true; t.Content != "" {
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// override has added tokens found as the files beside tokenizer.json say, as transformers does: there a token that is
// only in the vocabulary becomes an added one. ids are those of the vocabulary.
func (f *file) override(b beside, ids map[string]int32) error {
	for _, a := range b.decoder {
		i := f.indexAdded(a.Content)
		id, known := ids[a.Content]
		switch {
		case i >= 0:
			a.ID = f.AddedTokens[i].ID
			f.AddedTokens[i] = a
		case known:
			a.ID = id
			f.AddedTokens = append(f.AddedTokens, a)
		default:
			return fmt.Errorf("added_tokens: %q is not there, but in added_tokens_decoder of %s: save the tokenizer "+
				"again with transformers, which adds it, or leave it out there", a.Content, configFile)
		}
	}
	for _, t := range b.special {
		if f.indexAdded(t.Content) >= 0 {
			continue
		}
		id, known := ids[t.Content]
		if !known {
			return fmt.Errorf("%s of %s: %q is not a token of tokenizer.json; add it to added_tokens there or set it "+
				"to null, or leave it out of a list", t.field, t.file, t.Content)
		}
		t.ID = id
		f.AddedTokens = append(f.AddedTokens, t.addedToken)
	}
	if p := f.PreTokenizer; p != nil && p.Type == "ByteLevel" && b.prefixSpace != nil &&
		*b.prefixSpace != orTrue(p.AddPrefixSpace) {
		return fmt.Errorf("pre_tokenizer.add_prefix_space is %v, and %v in %s: which of them counts differs between "+
			"versions of transformers; make them equal", orTrue(p.AddPrefixSpace), *b.prefixSpace, configFile)
	}
	return nil
}

func (f *file) indexAdded(content string) int {
	return slices.IndexFunc(f.AddedTokens, func(a addedToken) bool { return a.Content == content })
}
