package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed98097648/tune/internal/plainjson"
)

// Word is a token to add to a tokenizer.
type Word struct {
	Text    string
	Special bool // it carries no text, and is left out by Decode on demand
}

// Extend is Load with more tokens, which get the ids after all others, as Hugging Face's
// add_tokens gives them. Words that are tokens already stay what they are. It returns the new
// tokenizer.json besides.
func Extend(dir string, words []Word) (*Tokenizer, []byte, error) {
	name := filepath.Join(dir, tokenizerFile)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := Load(dir)
	if err != nil {
		return nil, nil, err
	}
	var added []addedToken
	for _, w := range words {
		_, there := t.TokenID(w.Text)
		twice := slices.ContainsFunc(added, func(a addedToken) bool { return a.Content == w.Text })
		if w.Text == "" {
			return nil, nil, errors.New("tokenizer: a token to add is empty")
		}
		if there || twice {
			continue
		}
		added = append(added, addedToken{ID: int32(t.vocabSize + len(added)), Content: w.Text, Special: w.Special,
			Normalized: new(!w.Special)})
	}
	if len(added) == 0 {
		return t, data, nil
	}
	if data, err = withAdded(data, added); err != nil {
		return nil, nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	t, err = loadFrom(dir, name, data)
	return t, data, err
}

// withAdded appends to the field added_tokens, and leaves all else as it is, to the byte.
func withAdded(data []byte, added []addedToken) ([]byte, error) {
	var entries [][]byte
	for _, a := range added {
		var entry bytes.Buffer
		if err := plainjson.Encode(&entry, a, ""); err != nil { // tokens are full of angle brackets, which stay
			return nil, err
		}
		entries = append(entries, bytes.TrimSpace(entry.Bytes()))
	}
	list := bytes.Join(entries, []byte(",\n    "))
	data, found, err := plainjson.Splice(data, "added_tokens", func(value []byte) ([]byte, error) {
		var before []json.RawMessage
		err := json.Unmarshal(value, &before)
		switch {
		case before == nil:
			return slices.Concat([]byte("["), list, []byte("]")), err
		case len(before) > 0:
			value = bytes.TrimRight(value[:len(value)-1], " \r\n\t")
			return slices.Concat(value, []byte(",\n    "), list, []byte("\n  ]")), err
		}
		return slices.Concat(value[:len(value)-1], list, []byte("]")), err
	})
	if err != nil || found {
		return data, err
	}
	start := bytes.IndexByte(data, '{') + 1
	return slices.Concat(data[:start], []byte(`"added_tokens": [`), list, []byte("],"), data[start:]), nil
}
