package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are the methods of Python's str. Where Python takes bounds of the piece of
// the string that is meant, as in startswith, these do not: no template is known to give any,
// and s[a:b].startswith(x) says the same.
var stringMethods = map[string]builtin{
	"strip":      {params{"/", "self", "chars?"}, stripping(strings.TrimFunc, strings.Trim)},
	"lstrip":     {params{"/", "self", "chars?"}, stripping(strings.TrimLeftFunc, strings.TrimLeft)},
	"rstrip":     {params{"/", "self", "chars?"}, stripping(strings.TrimRightFunc, strings.TrimRight)},
	"upper":      {params{"/", "self"}, mapped(strings.ToUpper)},
	"lower":      {params{"/", "self"}, mapped(strings.ToLower)},
	"title":      {params{"/", "self"}, mapped(titled)},
	"capitalize": {params{"/", "self"}, mapped(capitalized)},
	"startswith": {params{"/", "self", "value"}, affix(strings.HasPrefix)},
	"endswith":   {params{"/", "self", "value"}, affix(strings.HasSuffix)},
	"replace":    {params{"/", "self", "old", "new", "count?"}, replaceIn},
	"join":       {params{"/", "self", "value"}, joinWith},
	"split":      {params{"self", "sep?", "maxsplit?"}, split},
}

// mapped makes another text of the value's. Filters use it too: these print the value
// first, which for a string changes nothing.
func mapped(f func(string) string) func(*run, args) any {
	return func(r *run, a args) any { return f(a.printed(r, 0)) }
}

// stripping is strip and its kind: without an argument, or with None, white space goes. With
// one, it is a set of characters to go and not, as one may think, a word: '</s>'.strip('</s>')
// is what remains of any of < / s >.
func stripping(space func(string, func(rune) bool) string, chars func(string, string) string) func(*run, args) any {
	return func(r *run, a args) any {
		s := a.printed(r, 0)
		if a.or(1, nil) == nil {
			return space(s, isSpace)
		}
		return chars(s, a.text(1))
	}
}

// titled writes the first letter of each word large and all others small. As in Python, what
// is no letter separates words: "they're" becomes "They'Re".
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

// replaceIn is the method replace and the filter of that name, whose operands may be of
// any type.
func replaceIn(r *run, a args) any {
	s, old, with := a.printed(r, 0), a.printed(r, 1), a.printed(r, 2)
	n := int64(strings.Count(s, old))
	if limit := a.or(3, nil); limit != nil {
		if most := a.int(3, -1); most >= 0 {
			n = min(n, most)
		}
	}
	r.chargeTimes(n, len(with))
	return strings.Replace(s, old, with, int(n))
}

// joinWith is the method join, which takes strings only.
func joinWith(r *run, a args) any {
	items := r.iterate(a.values[1])
	parts := make([]string, len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			panic(failed("sequence item %d: expected str instance, %s found", i, TypeName(item)))
		}
		parts[i] = s
	}
	return r.join(parts, a.text(0))
}

// join is strings.Join with its result charged before it is made.
func (r *run) join(parts []string, sep string) string {
	for _, part := range parts {
		r.charge(len(part) + len(sep))
	}
	return strings.Join(parts, sep)
}

// split cuts a string at a separator, or at runs of white space; a limit leaves the rest
// uncut. The two differ at the ends: ' a '.split(' ') has empty parts there, ' a '.split()
// has none.
func split(r *run, a args) any {
	s, n := a.text(0), a.int(2, -1)
	if n < 0 || n > int64(len(s)) {
		n = int64(len(s))
	}
	var parts []string
	if a.or(1, nil) == nil {
		parts = words(s, int(n))
	} else {
		sep := a.text(1)
		if sep == "" {
			panic(failed("%s: empty separator", a.name))
		}
		r.charge(2 * itemSize * strings.Count(s, sep))
		parts = strings.SplitN(s, sep, int(n)+1)
	}
	r.charge(2 * itemSize * len(parts))
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return items
}

// words returns the first n words of s, and the rest if there is any.
func words(s string, n int) []string {
	var parts []string
	for s = strings.TrimLeftFunc(s, isSpace); s != "" && n > 0; n-- {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			i = len(s)
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}
