package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		normalized := !w.Special
		added = append(added, addedToken{ID: int32(t.vocabSize + len(added)), Content: w.Text, Special: w.Special,
			Normalized: &normalized})
	}
	if len(added) == 0 {
		return t, data, nil
	}
	if data, err = withAdded(data, added); err != nil {
		return nil, nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	if t, err = Parse(name, data); err != nil {
		return nil, nil, err
	}
	if err := t.loadRoles(dir); err != nil {
		return nil, nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, data, nil
}

// withAdded appends to the field added_tokens, and leaves all else as it is, to the byte.
func withAdded(data []byte, added []addedToken) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var entries [][]byte
	for _, a := range added {
		var entry bytes.Buffer
		e := json.NewEncoder(&entry)
		e.SetEscapeHTML(false) // tokens are full of angle brackets
		if err := e.Encode(a); err != nil {
			return nil, err
		}
		entries = append(entries, bytes.TrimSpace(entry.Bytes()))
	}
	list := bytes.Join(entries, []byte(",\n    "))
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if key != "added_tokens" {
			continue
		}
		var before []json.RawMessage
		if err := json.Unmarshal(value, &before); err != nil {
			return nil, err
		}
		if end := int(d.InputOffset()); before == nil {
			return slices.Concat(data[:end-len(value)], []byte("["), list, []byte("]"), data[end:]), nil
		} else if len(before) > 0 {
			list = append([]byte(",\n    "), list...)
			return slices.Concat(bytes.TrimRight(data[:end-1], " \r\n\t"), list, []byte("\n  "), data[end-1:]), nil
		} else {
			return slices.Concat(data[:end-1], list, data[end-1:]), nil
		}
	}
	start := bytes.IndexByte(data, '{') + 1
	return slices.Concat(data[:start], []byte(`"added_tokens": [`), list, []byte("],"), data[start:]), nil
}
