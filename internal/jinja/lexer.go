package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
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
	literal
	operator
)

// token is a piece of a template: text outside of tags, or a word inside of one.
type token struct {
	kind  kind
	text  string
	value any // of a literal: what it stands for
	pos   int
}

func (k kind) String() string {
	return [...]string{"the end of the template", "text", "{%", "%}", "{{", "}}", "a name", "a literal", "an operator"}[k]
}

func (t token) String() string {
	if _, isText := t.value.(string); isText {
		return "a string"
	}
	if t.kind == name || t.kind == literal || t.kind == operator {
		return "'" + t.text + "'"
	}
	return t.kind.String()
}

// is tells whether the token is the word or operator s.
func (t token) is(s string) bool { return (t.kind == name || t.kind == operator) && t.text == s }

// tagBegin is where text ends: at a tag or comment, with its sign.
var tagBegin = regexp.MustCompile(`\{[{%#][-+]?`)

// word is what may stand inside of a tag: a name, a number, a string in either quotes, or an
// operator, of which those of two characters come before those that they begin with. Jinja
// also reads 1_000 and 0xff: a letter is taken along here to be refused. The letters of all scripts take half a
// millisecond to compile, which a program that reads no template keeps.
var word = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` +
		`([\pL\p{Mn}_][\pL\p{Mn}\p{Nd}_]*)|` +
		`(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?[\pL\p{Mn}_]?)|` +
		`'((?:[^'\\]|\\[\s\S])*)'|"((?:[^"\\]|\\[\s\S])*)"|` +
		`(==|!=|>=|<=|//|\*\*|[-+/*%~()\[\]{}<>=.:|,;]))`)
})

// lexer cuts a template into tokens. It does what jinja2's lexer does with trim_blocks and
// lstrip_blocks, which chat templates are written for: the newline after a block is dropped,
// and so are blanks before a block that begins its line. Neither happens to {{ }}.
type lexer struct {
	source
	pos       int
	tokens    []token
	lineStart bool // the tag before ended with a newline
}

func lex(src source) []token {
	l := &lexer{source: src, lineStart: true}
	for l.pos < len(l.text) {
		l.outside()
	}
	l.add(eof, "", nil)
	return l.tokens
}

// add adds a token and moves past its text.
func (l *lexer) add(k kind, text string, value any) {
	l.tokens = append(l.tokens, token{k, text, value, l.pos})
	l.pos += len(text)
}

// fail makes the failure to panic with.
func (l *lexer) fail(pos int, format string, a ...any) failure {
	return failure{l.at(fmt.Errorf(format, a...), pos)}
}

// outside reads text up to the next tag, and the tag.
func (l *lexer) outside() {
	at := tagBegin.FindStringIndex(l.text[l.pos:])
	if at == nil {
		l.add(data, l.text[l.pos:], nil)
		return
	}
	begin, end := l.pos+at[0], l.pos+at[1]
	c, sign := l.text[begin+1], l.text[begin+2:end]
	if text := l.before(l.text[l.pos:begin], sign, c != '{'); text != "" {
		l.add(data, text, nil)
	}
	l.lineStart = false
	switch l.pos = begin; c {
	case '#':
		l.pos = end
		l.comment(begin)
	case '%':
		l.add(blockBegin, "", nil)
		l.pos = end
		l.inside(blockEnd, "%}")
	default:
		l.add(varBegin, "", nil)
		l.pos = end
		l.inside(varEnd, "}}")
	}
}

// before returns what is left of the text before a tag: without white space at its end if the
// tag has the sign -, and without the indentation of a block or comment that has no sign.
func (l *lexer) before(text, sign string, block bool) string {
	if sign == "-" {
		return strings.TrimRightFunc(text, isSpace)
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if block && sign == "" && (line > 0 || l.lineStart) && strings.TrimFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

func (l *lexer) comment(begin int) {
	text, _, closed := strings.Cut(l.text[l.pos:], "#}")
	if !closed {
		panic(l.fail(begin, "the comment has no end; want #}"))
	}
	l.pos += len(text) + len("#}")
	l.after((" " + text)[len(text)], true)
}

// after drops what the end of a tag takes along: all white space with the sign -, and after a
// block or comment without a sign the newline.
func (l *lexer) after(sign byte, block bool) {
	if sign == '-' {
		l.space()
	} else if sign != '+' && block && strings.HasPrefix(l.text[l.pos:], "\n") {
		l.pos++
	}
	l.lineStart = l.text[l.pos-1] == '\n'
}

// space moves past white space.
func (l *lexer) space() {
	l.pos = len(l.text) - len(strings.TrimLeftFunc(l.text[l.pos:], isSpace))
}

// isSpace is Python's str.isspace, which has four control characters more than Go's.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

// inside reads the words of a tag up to its end. Inside of brackets nothing ends it: a dict in
// a dict closes with }}, and only that it is open tells the two apart.
func (l *lexer) inside(end kind, closing string) {
	begin, open := l.pos, []byte(nil) // the brackets to come, innermost last
	for {
		l.space()
		switch rest := l.text[l.pos:]; {
		case rest == "":
			panic(l.fail(begin, "the tag has no end; want %s", closing))
		case len(open) == 0 && strings.HasPrefix(rest, closing):
			l.end(end, closing, 0)
			return
		case len(open) == 0 && (rest[0] == '-' || rest[0] == '+' && end == blockEnd) && strings.HasPrefix(rest[1:], closing):
			l.end(end, closing, rest[0])
			return
		}
		switch bracket := l.word(); bracket {
		case "(":
			open = append(open, ')')
		case "[":
			open = append(open, ']')
		case "{":
			open = append(open, '}')
		case ")", "]", "}":
			if len(open) == 0 {
				panic(l.fail(l.pos-1, "unexpected '%s': no bracket is open", bracket))
			}
			if last := open[len(open)-1]; last != bracket[0] {
				panic(l.fail(l.pos-1, "unexpected '%s', want '%c'", bracket, last))
			}
			open = open[:len(open)-1]
		}
	}
}

// end adds the token of a tag's end, which may have a sign before it.
func (l *lexer) end(k kind, closing string, sign byte) {
	l.add(k, "", nil)
	if sign != 0 {
		l.pos++
	}
	l.pos += len(closing)
	l.after(sign, k == blockEnd)
}

// word adds a name, number, string or operator. It returns what an operator is.
func (l *lexer) word() string {
	rest := l.text[l.pos:]
	m := word().FindStringSubmatch(rest)
	switch {
	case m == nil && (rest[0] == '\'' || rest[0] == '"'):
		panic(l.fail(l.pos, "the string has no end; want %c", rest[0]))
	case m == nil:
		c, _ := utf8.DecodeRuneInString(rest)
		panic(l.fail(l.pos, "unexpected character %q", c))
	case m[1] != "":
		l.add(name, m[1], nil)
	case m[2] != "":
		l.number(m[2])
	case m[5] != "":
		l.add(operator, m[5], nil)
	default:
		l.add(literal, m[0], l.unescaped(m[3]+m[4])) // one of the two is empty
	}
	return m[5]
}

// number adds a number. After a dot the digits are an index: x.0.1 is not x followed by 0.1.
func (l *lexer) number(text string) {
	if l.text[l.pos-1] == '.' {
		text, _, _ = strings.Cut(text, ".")
	}
	value, err := parseNumber(text)
	if err != nil {
		panic(l.fail(l.pos, "%q is no number: write numbers in decimal digits without _", text))
	}
	l.add(literal, text, value)
}

// unescaped replaces the escapes of a string literal as Python does: an escape that Python
// does not know stays as it is, backslash included.
func (l *lexer) unescaped(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
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
