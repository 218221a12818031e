package jinja

import (
	"errors"
	"slices"
	"strings"
)

// split cuts a string at a separator, or at runs of white space; a limit leaves the rest
// uncut.
func split(r *run, a args) (any, error) { return r.splitAt("split()", a, cutLeft, fieldsLeft) }

// rsplit is split from the right.
func rsplit(r *run, a args) (any, error) { return r.splitAt("rsplit()", a, cutRight, fieldsRight) }

func (r *run) splitAt(name string, a args, at func(s, sep string, n int) []string, fields func(s string, n int) []string) (any, error) {
	v, err := a.bind(name, 1, "self", "sep", "maxsplit")
	if err != nil {
		return nil, err
	}
	limit, err := intArg(name, v[2], -1)
	if err != nil {
		return nil, err
	}
	s, _ := text(v[0])
	n := len(s) + 1
	if limit >= 0 {
		n = int(min(limit, int64(n)))
	}
	if or(v[1], nil) == nil {
		return r.texts(v[0], s, fields(s, n))
	}
	sep, err := textArg(name, v[1])
	if err != nil {
		return nil, err
	}
	if sep == "" {
		return nil, errors.New("empty separator")
	}
	return r.texts(v[0], s, at(s, sep, n))
}

// texts makes a list of the parts of the string whole.
func (r *run) texts(from any, whole string, parts []string) (any, error) {
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = keepMarkup(from, part)
	}
	if err := r.charge(len(whole)); err != nil {
		return nil, err
	}
	return r.madeItems(items)
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
func splitlines(r *run, a args) (any, error) {
	v, err := a.bind("splitlines()", 1, "self", "keepends")
	if err != nil {
		return nil, err
	}
	s, _ := text(v[0])
	var lines []string
	for rest := s; rest != ""; {
		i, size := lineEnd(rest)
		if truth(or(v[1], false)) {
			lines = append(lines, rest[:i+size])
		} else {
			lines = append(lines, rest[:i])
		}
		rest = rest[i+size:]
	}
	return r.texts(v[0], s, lines)
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

// partitioning is partition and rpartition: what is before the separator, the separator,
// and what is after it; without one, all is before it or, from the right, after it.
func partitioning(name string, find func(s, sep string) int, fromRight bool) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 1, 1)
		if err != nil {
			return nil, err
		}
		sep, err := textArg(name, v[1])
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		s, _ := text(v[0])
		parts := Tuple{s, "", ""}
		if i := find(s, sep); i >= 0 {
			parts = Tuple{s[:i], sep, s[i+len(sep):]}
		} else if fromRight {
			parts = Tuple{"", "", s}
		}
		return parts, r.charge(len(s))
	}
}
