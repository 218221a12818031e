package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
)

// The regular expressions in tokenizer.json are written for Oniguruma. regexp2
// reads most of its syntax alike, and what it cannot read is an error. checkDialect
// refuses the rest: what both read, but differently.

// sameEscapes are the letters after a backslash that mean the same to both. \w is
// not among them, for regexp2's has fewer marks in it.
const sameEscapes = "AzdDfnprPsStuvx"

// elements are what an expression is cut into: an escape like \n or \p{L}, the opening of a
// class, in which a first ] is a character, what is told apart below, and single characters.
var elements = regexp.MustCompile(`(?s)\\[0-9A-Za-z]\{[^}]*\}?|\\.?|\[\^?\]?|&&|\{,|\}\+|\(\?[-0-9A-Za-z]*|.`)

// checkDialect returns an error that quotes what is read differently.
func checkDialect(expr string) error {
	inClass := false // between [ and ]
	for _, at := range elements.FindAllStringIndex(expr, -1) {
		e, rest := expr[at[0]:at[1]], expr[at[1]:]
		differs := false
		switch {
		case e[0] == '\\':
			e = e[:min(len(e), 2)]
			differs = len(e) > 1 && isASCIIAlnum(e[1]) && !strings.Contains(sameEscapes, e[1:])
		case inClass:
			inClass = e != "]"
			if differs = e[0] == '[' || e == "&&"; e[0] == '[' { // a class in a class, an intersection of classes
				e = "["
			}
		case e == "{," || e == "}+":
			differs = true
		case e == "(?i" || e == "(?-i": // (?i: and (?-i: are alike, and (?i) at the start
			differs = !strings.HasPrefix(rest, ":") && at[0] > 0
		case strings.HasPrefix(e, "(?"): // (?! has no options, those of (?m: are read differently
			differs = e != "(?"
		case e[0] == '[':
			inClass = true
		}
		if differs {
			return fmt.Errorf("%q at byte %d is not supported: the libraries differ in what it means", e, at[0])
		}
	}
	return nil
}

// isASCIIAlnum reports whether c is an ASCII letter or digit.
func isASCIIAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
