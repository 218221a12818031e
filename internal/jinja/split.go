package jinja

import (
	"regexp"
	"slices"
	"strings"
)

// splitting cuts a string at a separator, or at runs of white space; a limit leaves the
// rest uncut, on the right for split and on the left for rsplit.
func splitting(at func(s, sep string, n int) []string, fields func(s string, n int) []string) func(*run, args) any {
	return func(r *run, a args) any {
		s, n := a.text(0), a.int(2, -1)
		most := int64(len(s) + 1)
		if n < 0 || n > most {
			n = most
		}
		if a.or(1, nil) == nil {
			return r.texts(a.values[0], fields(s, int(n)))
		}
		sep := a.separator(1)
		r.charge(2 * itemSize * strings.Count(s, sep))
		return r.texts(a.values[0], at(s, sep, int(n)))
	}
}

// texts makes a list of the parts of a string.
func (r *run) texts(from any, parts []string) any {
	r.charge(2 * itemSize * len(parts))
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = keepMarkup(from, part)
	}
	return items
}

// cutLeft cuts s at the first n separators.
func cutLeft(s, sep string, n int) []string { return strings.SplitN(s, sep, n+1) }

// cutRight cuts s at the last n separators.
func cutRight(s, sep string, n int) []string {
	var parts []string
	for range n {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

// fieldsLeft returns the first n words of s, and the rest if there is any.
func fieldsLeft(s string, n int) []string {
	parts := []string{}
	s = strings.TrimLeftFunc(s, isSpace)
	for s != "" && n > 0 {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			i = len(s)
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
		n--
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}

// lineEnd is what Python takes to be the end of a line.
var lineEnd = regexp.MustCompile("\r\n|[\n\r\v\f\x1c-\x1e\u0085\u2028\u2029]|$")

// splitlines cuts a string into lines; the flag keeps their ends.
func splitlines(r *run, a args) any {
	var lines []string
	for rest := a.text(0); rest != ""; {
		end := lineEnd.FindStringIndex(rest)
		keep := end[0]
		if a.flag(1) {
			keep = end[1]
		}
		lines = append(lines, rest[:keep])
		rest = rest[end[1]:]
	}
	return r.texts(a.values[0], lines)
}

// fieldsRight returns the last n words of s, after the rest if there is any: the first of
// the text written backwards.
func fieldsRight(s string, n int) []string {
	parts := fieldsLeft(backwards(s), n)
	for i := range parts {
		parts[i] = backwards(parts[i])
	}
	slices.Reverse(parts)
	return parts
}

func backwards(s string) string {
	chars := []rune(s)
	slices.Reverse(chars)
	return string(chars)
}
