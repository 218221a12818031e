package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Jinja also has 1_000 and 0xff, which no template is known to write.
var (
	floatRE = regexp.MustCompile(`^\d+(?:(?:\.\d+)?[eE][+\-]?\d+|\.\d+)`)
	intRE   = regexp.MustCompile(`^\d+`)
)

func (l *lexer) number(rest string) {
	k, digits := integerLit, intRE.FindString(rest)
	// After a dot digits are an index: x.0.1 is not x followed by .0.1.
	if f := floatRE.FindString(rest); f != "" && l.text[l.pos-1] != '.' {
		k, digits = floatLit, f
	}
	if c, _ := utf8.DecodeRuneInString(rest[len(digits):]); isNameRune(c) {
		panic(l.fail(l.pos, "a number and then %q: write numbers in decimal digits without _", c))
	}
	l.addWord(k, digits)
}

func (l *lexer) stringLit(rest string) {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[0]:
			l.add(str, l.unescape(rest[1:i]), l.pos)
			l.pos += i + 1
			return
		}
	}
	panic(l.fail(l.pos, "the string has no end; want %c", rest[0]))
}

// unescape replaces the escapes of a string literal as Python does: an escape that Python
// does not know stays as it is, backslash included.
func (l *lexer) unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		switch c := s[1]; {
		case c == '\'' || c == '"':
			b.WriteByte(c)
			s = s[2:]
		case c == '\n': // the line goes on
			s = s[2:]
		case strings.IndexByte(`abfnrtvxuU\01234567`, c) >= 0: // Go has these too
			char, _, rest, err := strconv.UnquoteChar(s, 0)
			if err != nil {
				panic(l.fail(l.pos, `the escape %s does not name a character; write it as \uXXXX`, s[:min(len(s), 6)]))
			}
			b.WriteRune(char)
			s = rest
		default:
			b.WriteByte('\\')
			s = s[1:]
		}
	}
}
