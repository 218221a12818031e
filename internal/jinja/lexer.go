package jinja

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	eof kind = iota
	data
	blockBegin
	blockEnd
	varBegin
	varEnd
	name
	str
	integerLit
	floatLit
	operator
)

func (k kind) String() string {
	return [...]string{"the end of the template", "text", "{%", "%}", "{{", "}}",
		"a name", "a string", "an integer", "a float", "an operator"}[k]
}

// token is a piece of a template: text outside of tags, or a word inside of one.
type token struct {
	kind kind
	text string // of data and strings: what it stands for
	pos  int
}

func (t token) String() string {
	switch t.kind {
	case name, operator, integerLit, floatLit:
		return "'" + t.text + "'"
	}
	return t.kind.String()
}

// is tells whether the token is the word or operator s.
func (t token) is(s string) bool { return (t.kind == name || t.kind == operator) && t.text == s }

var (
	rawBegin = regexp.MustCompile(`^\{%([-+]?)\s*raw\s*(?:-%\}\s*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)`)
)

// operators of two characters come before those of one that they begin with.
var operators = []string{"==", "!=", ">=", "<=", "//", "**",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// lexer cuts a template into tokens, with trim_blocks and lstrip_blocks: the newline
// after a block is dropped, and so are blanks before a block that begins its line.
type lexer struct {
	source
	pos       int
	tokens    []token
	lineStart bool     // the tag before ended with a newline
	open      []string // the brackets to come, innermost last
}

func lex(src source) []token {
	l := &lexer{source: src, lineStart: true}
	for l.pos < len(l.text) {
		l.outside()
	}
	l.add(eof, "", l.pos)
	return l.tokens
}

func (l *lexer) add(k kind, text string, pos int) { l.tokens = append(l.tokens, token{k, text, pos}) }

// fail makes the failure to panic with.
func (l *lexer) fail(pos int, format string, a ...any) failure {
	return failure{l.at(fmt.Errorf(format, a...), pos)}
}

// outside reads text up to the next tag, and the tag.
func (l *lexer) outside() {
	start := l.pos
	i := tagAt(l.text[start:])
	if i < 0 {
		l.add(data, l.text[start:], start)
		l.pos = len(l.text)
		return
	}
	tag := l.text[start+i:]
	if m := rawBegin.FindStringSubmatch(tag); m != nil {
		l.addText(start, start+i, m[1], true)
		l.pos = start + i + len(m[0])
		l.lineStart = strings.HasSuffix(m[0], "\n")
		l.raw()
		return
	}
	sign := ""
	if len(tag) > 2 && (tag[2] == '-' || tag[2] == '+') {
		sign = tag[2:3]
	}
	l.addText(start, start+i, sign, tag[1] != '{')
	l.pos = start + i + 2 + len(sign)
	l.lineStart = false
	switch tag[1] {
	case '#':
		l.comment(start + i)
	case '%':
		l.add(blockBegin, "", start+i)
		l.inside(blockEnd, "%}")
	default:
		l.add(varBegin, "", start+i)
		l.inside(varEnd, "}}")
	}
}

// tagAt returns where the first tag of s begins, or -1.
func tagAt(s string) int {
	for i := 0; ; i++ {
		next := strings.IndexByte(s[i:], '{')
		if next < 0 || i+next+1 >= len(s) {
			return -1
		}
		i += next
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// addText adds the text from start to end that lies before a tag with the given sign;
// only before blocks and comments is the indentation dropped.
func (l *lexer) addText(start, end int, sign string, block bool) {
	s := l.text[start:end]
	if sign == "-" {
		s = strings.TrimRightFunc(s, isSpace)
	} else if line := strings.LastIndexByte(s, '\n') + 1; block && sign == "" && (line > 0 || l.lineStart) {
		if strings.TrimFunc(s[line:], isSpace) == "" {
			s = s[:line]
		}
	}
	if s != "" {
		l.add(data, s, start)
	}
}

// raw reads what stands between raw and endraw as text.
func (l *lexer) raw() {
	m := rawEnd.FindStringSubmatchIndex(l.text[l.pos:])
	if m == nil {
		panic(l.fail(l.pos, "the block raw has no endraw"))
	}
	l.addText(l.pos, l.pos+m[0], l.text[l.pos+m[2]:l.pos+m[3]], true)
	l.pos += m[1]
	l.lineStart = l.text[l.pos-1] == '\n'
}

func (l *lexer) comment(start int) {
	i := strings.Index(l.text[l.pos:], "#}")
	if i < 0 {
		panic(l.fail(start, "the comment has no end; want #}"))
	}
	sign := byte(0)
	if i > 0 {
		sign = l.text[l.pos+i-1]
	}
	l.pos += i + len("#}")
	l.afterTag(sign, true)
}

// afterTag drops what the end of a tag takes along: all white space with the sign -, and
// after a block or comment without a sign the newline.
func (l *lexer) afterTag(sign byte, block bool) {
	rest := l.text[l.pos:]
	switch {
	case sign == '-':
		l.pos = len(l.text) - len(strings.TrimLeftFunc(rest, isSpace))
	case sign != '+' && block && strings.HasPrefix(rest, "\n"):
		l.pos++
	}
	l.lineStart = l.text[l.pos-1] == '\n'
}

// inside reads the words of a tag up to its end.
func (l *lexer) inside(end kind, closing string) {
	l.open = l.open[:0]
	begin := l.pos
	for {
		l.pos = len(l.text) - len(strings.TrimLeftFunc(l.text[l.pos:], isSpace))
		if l.pos == len(l.text) {
			panic(l.fail(begin, "the tag has no end; want %s", closing))
		}
		if len(l.open) == 0 && l.tagEnd(end, closing) {
			return
		}
		l.word()
	}
}

func (l *lexer) tagEnd(end kind, closing string) bool {
	rest, sign := l.text[l.pos:], byte(0)
	if c := rest[0]; (c == '-' || c == '+' && end == blockEnd) && strings.HasPrefix(rest[1:], closing) {
		rest, sign = rest[1:], c
	}
	if !strings.HasPrefix(rest, closing) {
		return false
	}
	l.add(end, "", l.pos)
	l.pos = len(l.text) - len(rest) + len(closing)
	l.afterTag(sign, end == blockEnd)
	return true
}

// word reads one name, number, string or operator.
func (l *lexer) word() {
	rest := l.text[l.pos:]
	c, _ := utf8.DecodeRuneInString(rest)
	switch {
	case c == '\'' || c == '"':
		l.stringLit(rest)
		return
	case c >= '0' && c <= '9':
		l.number(rest)
		return
	case isNameRune(c):
		l.addWord(name, rest[:len(rest)-len(strings.TrimLeftFunc(rest, isNameRune))])
		return
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.operator(op)
			return
		}
	}
	panic(l.fail(l.pos, "unexpected character %q", c))
}

func (l *lexer) addWord(k kind, text string) {
	l.add(k, text, l.pos)
	l.pos += len(text)
}

// isSpace is Python's str.isspace, which has four control characters more than Go's.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

func isNameRune(c rune) bool {
	return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.Mn, c)
}

func (l *lexer) operator(op string) {
	switch op {
	case "(", "[", "{":
		l.open = append(l.open, map[string]string{"(": ")", "[": "]", "{": "}"}[op])
	case ")", "]", "}":
		if len(l.open) == 0 {
			panic(l.fail(l.pos, "unexpected '%s': no bracket is open", op))
		}
		want := l.open[len(l.open)-1]
		if l.open = l.open[:len(l.open)-1]; want != op {
			panic(l.fail(l.pos, "unexpected '%s', want '%s'", op, want))
		}
	}
	l.addWord(operator, op)
}
