package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Bytes returns what a token adds to a text after another token. It may be a part of a character; an id that no
// token has adds nothing.
func (t *Tokenizer) Bytes(id int32) []byte {
	token, ok := t.tokens[id]
	if !ok {
		return nil
	}
	// The first token of a text may lose a space.
	once, twice := t.Decode([]int32{id}, false), t.Decode([]int32{id, id}, false)
	text := strings.TrimPrefix(twice, once)
	if !strings.ContainsRune(text, utf8.RuneError) {
		return []byte(text)
	}
	if b, ok := byteToken(token); ok {
		return []byte{b}
	}
	return appendCharBytes(nil, token)
}
