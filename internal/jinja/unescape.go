package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape replaces the escapes of a string literal as Python does: an escape that Python
// does not know stays as it is, backslash included.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		n, err := escape(&b, s[i:])
		if err != nil {
			return "", err
		}
		s = s[i+n:]
	}
}

// simpleEscapes are the letters after a backslash and what they stand for; a newline
// stands for nothing.
var simpleEscapes = map[byte]string{'\\': `\`, '\'': `'`, '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f",
	'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\n': ""}

// escape writes what the escape at the beginning of s stands for, and returns its length.
func escape(b *strings.Builder, s string) (int, error) {
	c := s[1]
	if plain, ok := simpleEscapes[c]; ok {
		b.WriteString(plain)
		return 2, nil
	}
	switch {
	case c == 'x':
		return hexEscape(b, s, 2)
	case c == 'u':
		return hexEscape(b, s, 4)
	case c == 'U':
		return hexEscape(b, s, 8)
	case c == 'N':
		return 0, fmt.Errorf(`\N{...} names a character; write it as \uXXXX`)
	case c >= '0' && c <= '7':
		n := 2
		for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		code, err := strconv.ParseUint(s[1:n], 8, 32)
		b.WriteRune(rune(code))
		return n, err
	}
	b.WriteByte('\\')
	return 1, nil
}

func hexEscape(b *strings.Builder, s string, digits int) (int, error) {
	if len(s) < 2+digits {
		return 0, fmt.Errorf(`truncated escape %s: want %d hexadecimal digits`, s, digits)
	}
	code, err := strconv.ParseUint(s[2:2+digits], 16, 32)
	if err != nil || !utf8.ValidRune(rune(code)) || code > utf8.MaxRune {
		return 0, fmt.Errorf(`escape %s does not name a character`, s[:2+digits])
	}
	b.WriteRune(rune(code))
	return 2 + digits, nil
}
