package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// alone are the parameters of methods that have none; one and oneOpt of those with one.
var (
	alone  = params{"/", "self"}
	one    = params{"/", "self", "value"}
	oneOpt = params{"/", "self", "chars?"}
	splits = params{"self", "sep?", "maxsplit?"}
)

// stringMethods are the methods of Python's str. Where Python takes bounds of the piece of
// the string that is meant, as in find and startswith, these do not: no template is known
// to give any, and s[a:b].find(x) says the same.
var stringMethods = map[string]builtin{
	"strip":      {oneOpt, stripping(strings.TrimFunc, strings.Trim)},
	"lstrip":     {oneOpt, stripping(strings.TrimLeftFunc, strings.TrimLeft)},
	"rstrip":     {oneOpt, stripping(strings.TrimRightFunc, strings.TrimRight)},
	"upper":      {alone, mapped(strings.ToUpper)},
	"lower":      {alone, mapped(strings.ToLower)},
	"title":      {alone, mapped(titled)},
	"capitalize": {alone, mapped(capitalized)},

	"isspace": {alone, all(isSpace)},
	"isdigit": {alone, all(unicode.IsDigit)},
	"isalpha": {alone, all(unicode.IsLetter)},
	"isalnum": {alone, all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })},
	"islower": {alone, cased(unicode.IsLower, unicode.IsUpper)},
	"isupper": {alone, cased(unicode.IsUpper, unicode.IsLower)},

	"startswith":   {one, affix(strings.HasPrefix)},
	"endswith":     {one, affix(strings.HasSuffix)},
	"removeprefix": {one, cutting(strings.TrimPrefix)},
	"removesuffix": {one, cutting(strings.TrimSuffix)},
	"find":         {one, finding(strings.Index, false)},
	"rfind":        {one, finding(strings.LastIndex, false)},
	"index":        {one, finding(strings.Index, true)},
	"rindex":       {one, finding(strings.LastIndex, true)},
	"count":        {one, func(_ *run, a args) any { return int64(strings.Count(a.text(0), a.text(1))) }},
	"replace":      {params{"/", "self", "old", "new", "count?"}, replaceIn},
	"join":         {one, joinWith},
	"split":        {splits, splitting(cutLeft, fieldsLeft)},
	"rsplit":       {splits, splitting(cutRight, fieldsRight)},
	"splitlines":   {params{"self", "keepends?"}, splitlines},
	"partition":    {one, partitioning(strings.Index, false)},
	"rpartition":   {one, partitioning(strings.LastIndex, true)},
}

// mapped makes another text of the value's. Filters use it too: these print the value
// first, which for a string changes nothing.
func mapped(f func(string) string) func(*run, args) any {
	return func(r *run, a args) any { return keepMarkup(a.values[0], f(r.str(a.values[0]))) }
}

// all tells whether a string has characters and all are of a kind.
func all(is func(rune) bool) func(*run, args) any {
	return func(_ *run, a args) any {
		s := a.text(0)
		return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !is(c) })
	}
}

// stripping is strip and its kind: without an argument, or with None, white space goes.
func stripping(space func(string, func(rune) bool) string, chars func(string, string) string) func(*run, args) any {
	return func(r *run, a args) any {
		s := r.str(a.values[0])
		if a.or(1, nil) == nil {
			return keepMarkup(a.values[0], space(s, isSpace))
		}
		return keepMarkup(a.values[0], chars(s, a.text(1)))
	}
}

// titled writes the first letter of each word large and all others small; what is no
// letter separates words.
func titled(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		first := !inWord
		inWord = unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c)
		if first {
			return unicode.ToTitle(c)
		}
		return unicode.ToLower(c)
	}, s)
}

// capitalized writes the first character large and all others small.
func capitalized(s string) string {
	c, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToTitle(c)) + strings.ToLower(s[size:])
}

// affix is startswith and endswith: with one string, or a tuple of which any will do.
func affix(has func(s, affix string) bool) func(*run, args) any {
	return func(_ *run, a args) any {
		options, isTuple := a.values[1].(Tuple)
		if !isTuple {
			options = Tuple{a.values[1]}
		}
		found := false
		for _, option := range options {
			found = found || has(a.text(0), args{a.name, []any{option}, nil}.text(0))
		}
		return found
	}
}

// cutting is removeprefix and removesuffix.
func cutting(cut func(s, affix string) string) func(*run, args) any {
	return func(_ *run, a args) any { return keepMarkup(a.values[0], cut(a.text(0), a.text(1))) }
}

// finding is find and its kind. Python counts characters where Go counts bytes.
func finding(find func(s, sub string) int, must bool) func(*run, args) any {
	return func(_ *run, a args) any {
		s := a.text(0)
		i := find(s, a.text(1))
		if i < 0 && must {
			panic(failed("%s: substring not found", a.name))
		}
		if i < 0 {
			return int64(-1)
		}
		return int64(utf8.RuneCountInString(s[:i]))
	}
}

// replaceIn is the method replace and the filter of that name, whose operands may be of
// any type.
func replaceIn(r *run, a args) any {
	s, old, with := r.str(a.values[0]), r.str(a.values[1]), r.str(a.values[2])
	n := int64(strings.Count(s, old))
	if limit := a.or(3, nil); limit != nil {
		if most := a.int(3, -1); most >= 0 {
			n = min(n, most)
		}
	}
	r.chargeTimes(n, len(with))
	return keepMarkup(a.values[0], strings.Replace(s, old, with, int(n)))
}

// joinWith is the method join, which takes strings only.
func joinWith(r *run, a args) any {
	items := r.iterate(a.values[1])
	parts := make([]string, len(items))
	for i, item := range items {
		s, ok := text(item)
		if !ok {
			panic(failed("sequence item %d: expected str instance, %s found", i, TypeName(item)))
		}
		parts[i] = s
	}
	return keepMarkup(a.values[0], r.join(parts, a.text(0)))
}

// join is strings.Join with its result charged before it is made.
func (r *run) join(parts []string, sep string) string {
	for _, part := range parts {
		r.charge(len(part) + len(sep))
	}
	return strings.Join(parts, sep)
}

// partitioning is partition and rpartition: what is before the separator, the separator,
// and what is after it; without one, all is before it or, from the right, after it.
func partitioning(find func(s, sep string) int, fromRight bool) func(*run, args) any {
	return func(_ *run, a args) any {
		s, sep := a.text(0), a.separator(1)
		switch i := find(s, sep); {
		case i >= 0:
			return Tuple{s[:i], sep, s[i+len(sep):]}
		case fromRight:
			return Tuple{"", "", s}
		}
		return Tuple{s, "", ""}
	}
}

// separator is argument i, a string that is not empty.
func (a args) separator(i int) string {
	sep := a.text(i)
	if sep == "" {
		panic(failed("%s: empty separator", a.name))
	}
	return sep
}
