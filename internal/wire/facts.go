package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed98097648/tune/core"
)

// FactsText writes facts as lines of name=value: the members of their JSON form, in its
// order, texts without quotes.
func FactsText(f core.Facts) ([]byte, error) {
	object, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("transport: facts %v: %w", f, err)
	}
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var out []byte
	for name := true; ; {
		t, err := d.Token()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("transport: facts %v: %w", f, err)
		}
		if _, brace := t.(json.Delim); brace {
			continue
		}
		word := fmt.Sprint(t)
		if !Plain(word) {
			return nil, fmt.Errorf("%w: the fact %q is no plain line of text", core.ErrNotSupported, word)
		}
		end := "\n"
		if name {
			end = "="
		}
		out, name = append(append(out, word...), end...), !name
	}
}

// ReadFacts is the inverse of FactsText. A fact that was not known when this program was
// built may change what the op means, so it is not supported.
func ReadFacts(text string) (core.Facts, error) {
	object := map[string]any{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		_, notNumber := strconv.ParseFloat(value, 64)
		switch {
		case value == "true" || value == "false":
			object[name] = value == "true"
		case notNumber == nil:
			object[name] = json.Number(value)
		default:
			object[name] = value
		}
	}
	var f core.Facts
	b, err := json.Marshal(object)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err = d.Decode(&f); err == nil && f.DType == core.InvalidDType {
			err = errors.New("they have no dtype")
		}
	}
	if err != nil {
		return core.Facts{}, fmt.Errorf("%w: the facts %q are not understood: %w; "+
			"rebuild the plugin with this version of tune",
			core.ErrNotSupported, text, err)
	}
	return f, nil
}

// Plain reports whether a text fits one line and is safe to show.
func Plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}
