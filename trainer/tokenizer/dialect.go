package tokenizer

import (
	"fmt"
	"strings"
)

// The regular expressions in tokenizer.json are written for Oniguruma. regexp2
// reads most of its syntax alike, and what it cannot read is an error. checkDialect
// refuses the rest: what both read, but differently.

// sameEscapes are the letters after a backslash that mean the same to both. \w is
// not among them, for regexp2's has fewer marks in it.
const sameEscapes = "AzdDfnprPsStuvx"

// dialect walks through an expression.
type dialect struct {
	expr    string
	pos     int
	inClass bool // between [ and ]
}

// checkDialect returns an error that quotes what is read differently.
func checkDialect(expr string) error {
	d := dialect{expr: expr}
	for d.pos < len(expr) {
		n := d.differs()
		if n > 0 {
			return fmt.Errorf("%q at byte %d is not supported: the libraries differ in what it means", expr[d.pos:d.pos+n],
				d.pos)
		}
		d.step()
	}
	return nil
}

// rest is the expression from pos on.
func (d *dialect) rest() string { return d.expr[d.pos:] }

// differs returns how many bytes from pos on are read differently.
func (d *dialect) differs() int {
	rest := d.rest()
	switch {
	case rest[0] == '\\':
		if len(rest) > 1 && isASCIIAlnum(rest[1]) && !strings.Contains(sameEscapes, rest[1:2]) {
			return 2
		}
	case d.inClass:
		if rest[0] == '[' { // a class in a class
			return 1
		}
		if strings.HasPrefix(rest, "&&") { // an intersection of classes
			return 2
		}
	case strings.HasPrefix(rest, "{,"), strings.HasPrefix(rest, "}+"):
		return 2
	case strings.HasPrefix(rest, "(?"):
		return d.optionsDiffer()
	}
	return 0
}

// optionsDiffer returns the length of a group like (?m: whose options the libraries
// read differently; only (?i: and (?-i: are alike, and (?i) at the start.
func (d *dialect) optionsDiffer() int {
	n := len("(?")
	options := d.rest()[n:]
	for len(options) > 0 && (options[0] == '-' || isASCIIAlnum(options[0])) {
		options = options[1:]
		n++
	}
	switch d.rest()[:n] {
	case "(?": // a group without options, such as (?!
		return 0
	case "(?i", "(?-i":
		if strings.HasPrefix(options, ":") || d.pos == 0 {
			return 0
		}
	}
	return n
}

// step moves past one character, or past an escape like \n or \p{L}, or past the
// opening of a class.
func (d *dialect) step() {
	c := d.expr[d.pos]
	d.pos++
	switch {
	case c == '\\':
		d.pos++
		if d.pos < len(d.expr) && isASCIIAlnum(d.expr[d.pos-1]) && d.expr[d.pos] == '{' {
			d.pos += strings.IndexByte(d.rest()+"}", '}') + 1
		}
	case c == '[':
		d.inClass = true
		if strings.HasPrefix(d.rest(), "^") {
			d.pos++
		}
		if strings.HasPrefix(d.rest(), "]") { // first in a class it is a character
			d.pos++
		}
	case c == ']':
		d.inClass = false
	}
	d.pos = min(d.pos, len(d.expr))
}

// isASCIIAlnum reports whether c is an ASCII letter or digit.
func isASCIIAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
