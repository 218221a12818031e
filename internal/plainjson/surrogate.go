package plainjson

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
)

// ErrSurrogate is returned by Surrogates.
var ErrSurrogate = errors.New(`half of a surrogate pair, such as \ud83d alone, is no character: a text was cut ` +
	"within one")

// Surrogates looks for halves of surrogate pairs in JSON, which encoding/json takes for U+FFFD without a word, as it
// does with bytes that are no UTF-8. What is no JSON at all is for encoding/json to say.
func Surrogates(json []byte) error {
	for i := bytes.IndexByte(json, '\\'); i >= 0 && i+1 < len(json); {
		first := escaped(json[i:])
		size := 2
		if first >= 0 {
			size = len(`\u0000`)
		}
		if utf16.IsSurrogate(first) {
			second := escaped(json[i+size:])
			if utf16.DecodeRune(first, second) == '\uFFFD' {
				return ErrSurrogate
			}
			size *= 2
		}
		next := bytes.IndexByte(json[i+size:], '\\')
		if next < 0 {
			break
		}
		i += size + next
	}
	return nil
}

// escaped reads what begins a text as \u and four digits; -1 if it begins otherwise.
func escaped(text []byte) rune {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
