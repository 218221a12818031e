package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// newForm brings a text into one of Unicode's normal forms
// (https://unicode.org/reports/tr15). decompose is the form without composition
// that goes with form, or form itself.
//
// Package norm does it, except that it breaks runs of more than 30 combining marks
// with U+034F, as Unicode's stream-safe format wants. Hugging Face's library does
// not, so texts that may have such runs take the long way.
func newForm(form, decompose norm.Form) normalizer {
	return func(text string) string {
		if !hasLongRun(decompose, text) {
			return form.String(text)
		}
		chars := canonicalOrder(decompose, text)
		if form != decompose {
			chars = composed(chars)
		}
		return string(chars)
	}
}

// hasLongRun reports whether text has a run of combining characters that package
// norm might break. It counts those of the decomposition, at most 3 for each
// character here, so runs of 10 are safe.
func hasLongRun(decompose norm.Form, text string) bool {
	run := 0
	for i, r := range text {
		if r < 0x300 { // neither combines with what is before it nor decomposes to more than one mark
			run = 0
			continue
		}
		p := decompose.PropertiesString(text[i:])
		if p.BoundaryBefore() {
			run = 0
		}
		if !p.BoundaryBefore() || p.TrailCCC() != 0 {
			run++
		}
		if run > 10 {
			return true
		}
	}
	return false
}

// canonicalOrder decomposes text and sorts each run of marks by combining class.
func canonicalOrder(decompose norm.Form, text string) []rune {
	var chars []rune
	for _, r := range text {
		chars = append(chars, []rune(decompose.String(string(r)))...)
	}
	for i := 0; i < len(chars); {
		end := i
		for end < len(chars) && combiningClass(chars[end]) != 0 {
			end++
		}
		slices.SortStableFunc(chars[i:end], func(a, b rune) int {
			return int(combiningClass(a)) - int(combiningClass(b))
		})
		i = end + 1
	}
	return chars
}

// composed joins each starter with the characters after it that are not blocked
// from it (definition D117 of the Unicode standard, section 3.11).
func composed(chars []rune) []rune {
	var out []rune
	starter := -1    // index in out
	var before uint8 // combining class of the last character of out
	for _, r := range chars {
		class := combiningClass(r)
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || before < class) {
			if c, ok := composePair(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		before = class
		out = append(out, r)
	}
	return out
}

// composePair returns the character that a and b make up.
func composePair(a, b rune) (rune, bool) {
	s := norm.NFC.String(string([]rune{a, b}))
	r, n := utf8.DecodeRuneInString(s)
	return r, n == len(s)
}

// combiningClass returns the canonical combining class of r, 0 for a starter.
func combiningClass(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// lowercase maps each character by itself, so without the final sigma; the dotted
// capital I is the only one that becomes two characters.
func lowercase(text string) string {
	return strings.ToLower(strings.ReplaceAll(text, "İ", "i\u0307"))
}

// isWord reports whether r is a word character as UTS #18 defines \w.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || r == '_' || r == '\u200c' || r == '\u200d' ||
		unicode.In(r, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}

// lossyUTF8 puts one U+FFFD in place of each longest part of text that begins a
// character and breaks off, and of each byte that begins none. (Package strings
// and a range loop count them differently.)
func lossyUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 {
			for !utf8.FullRuneInString(text[:n]) && n < len(text) && !utf8.FullRuneInString(text[:n+1]) {
				n++
			}
		}
		out.WriteRune(r)
		text = text[n:]
	}
	return out.String()
}
