package jinja

import (
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

// fieldsRight returns the last n words of s, after the rest if there is any.
func fieldsRight(s string, n int) []string {
	parts := []string{}
	s = strings.TrimRightFunc(s, isSpace)
	for s != "" && n > 0 {
		i := len(strings.TrimRightFunc(s, func(c rune) bool { return !isSpace(c) }))
		parts = append(parts, s[i:])
		s = strings.TrimRightFunc(s[:i], isSpace)
		n--
	}
	if s != "" {
		parts = append(parts, s)
	}
	slices.Reverse(parts)
	return parts
}

// splitlines cuts a string at what Python takes to be the end of a line.
func splitlines(r *run, a args) any {
	s := a.text(0)
	var lines []string
	for rest := s; rest != ""; {
		i, size := lineEnd(rest)
		line := rest[:i]
		if a.flag(1) {
			line = rest[:i+size]
		}
		lines = append(lines, line)
		rest = rest[i+size:]
	}
	return r.texts(a.values[0], lines)
}

// lineEnd returns where the first line of s ends, and the length of what ends it.
func lineEnd(s string) (at, size int) {
	i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
	switch {
	case i < 0:
		return len(s), 0
	case strings.HasPrefix(s[i:], "\r\n"):
		return i, 2
	case s[i] < 0x80:
		return i, 1
	case s[i] == 0xc2: // U+0085
		return i, 2
	}
	return i, 3
}
