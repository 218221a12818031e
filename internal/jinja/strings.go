package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethods are the methods of Python's str.
var stringMethods = map[string]builtin{
	"strip":      stripping("strip()", strings.TrimFunc, strings.Trim),
	"lstrip":     stripping("lstrip()", strings.TrimLeftFunc, strings.TrimLeft),
	"rstrip":     stripping("rstrip()", strings.TrimRightFunc, strings.TrimRight),
	"upper":      mapping("upper()", strings.ToUpper),
	"lower":      mapping("lower()", strings.ToLower),
	"casefold":   mapping("casefold()", strings.ToLower),
	"title":      mapping("title()", titled),
	"capitalize": mapping("capitalize()", capitalized),
	"swapcase":   mapping("swapcase()", swapped),

	"isspace":   asking("isspace()", isSpace),
	"isdigit":   asking("isdigit()", unicode.IsDigit),
	"isdecimal": asking("isdecimal()", unicode.IsDigit),
	"isnumeric": asking("isnumeric()", unicode.IsNumber),
	"isalpha":   asking("isalpha()", unicode.IsLetter),
	"isalnum":   asking("isalnum()", func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"isascii":   whole("isascii()", func(s string) bool { return len(s) == utf8.RuneCountInString(s) }),
	"islower":   whole("islower()", func(s string) bool { return isCased(s, unicode.IsLower, unicode.IsUpper) }),
	"isupper":   whole("isupper()", func(s string) bool { return isCased(s, unicode.IsUpper, unicode.IsLower) }),

	"startswith":   affix("startswith()", strings.HasPrefix),
	"endswith":     affix("endswith()", strings.HasSuffix),
	"removeprefix": cutting("removeprefix()", strings.TrimPrefix),
	"removesuffix": cutting("removesuffix()", strings.TrimSuffix),
	"find":         finding("find()", strings.Index, false),
	"rfind":        finding("rfind()", strings.LastIndex, false),
	"index":        finding("index()", strings.Index, true),
	"rindex":       finding("rindex()", strings.LastIndex, true),
	"count":        countIn,
	"replace":      replaceIn,
	"join":         joinWith,
	"split":        split,
	"rsplit":       rsplit,
	"splitlines":   splitlines,
	"partition":    partitioning("partition()", strings.Index, false),
	"rpartition":   partitioning("rpartition()", strings.LastIndex, true),
	"center":       justifying("center()", half),
	"ljust":        justifying("ljust()", func(int, int) int { return 0 }),
	"rjust":        justifying("rjust()", func(gap, _ int) int { return gap }),
	"zfill":        zfill,
	"format":       formatMethod,
}

// keepMarkup makes s markup if the string it comes from was.
func keepMarkup(from any, s string) any {
	if _, ok := from.(markup); ok {
		return markup(s)
	}
	return s
}

// changed charges a string made from another, and keeps it markup.
func (r *run) changed(from any, s string) (any, error) { return keepMarkup(from, s), r.charge(len(s)) }

// mapping is a method without arguments that makes another string.
func mapping(name string, f func(string) string) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 0, 0)
		if err != nil {
			return nil, err
		}
		s, _ := text(v[0])
		return r.changed(v[0], f(s))
	}
}

// whole is a method without arguments that tells something of a string.
func whole(name string, f func(string) bool) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 0, 0)
		if err != nil {
			return nil, err
		}
		s, _ := text(v[0])
		return f(s), r.step(len(s) / 16)
	}
}

// asking is a method that tells whether all characters are of a kind, and there are any.
func asking(name string, is func(rune) bool) builtin {
	return whole(name, func(s string) bool {
		return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !is(c) })
	})
}

// stripping is strip and its kind: without an argument, or with None, white space goes.
func stripping(name string, space func(string, func(rune) bool) string, chars func(string, string) string) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 0, 1)
		if err != nil {
			return nil, err
		}
		s, _ := text(v[0])
		if or(v[1], nil) == nil {
			return r.changed(v[0], space(s, isSpace))
		}
		set, err := textArg(name, v[1])
		if err != nil {
			return nil, err
		}
		return r.changed(v[0], chars(s, set))
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

func capitalized(s string) string {
	c, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToTitle(c)) + strings.ToLower(s[size:])
}

func swapped(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, s)
}

// affix is startswith and endswith: with one string, or a tuple of which any will do, and
// the bounds of the piece of the string that is meant.
func affix(name string, has func(s, affix string) bool) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 1, 3)
		if err != nil {
			return nil, err
		}
		s, _ := text(v[0])
		piece, _, ok, err := r.piece(name, s, v[2], v[3])
		if err != nil {
			return nil, err
		}
		options, isTuple := v[1].(Tuple)
		if !isTuple {
			options = Tuple{v[1]}
		}
		for _, option := range options {
			t, err := textArg(name, option)
			if err != nil {
				return nil, err
			}
			if ok && has(piece, t) {
				return true, nil
			}
		}
		return false, nil
	}
}

// piece is s[start:end] in characters, with the number of characters before it. It is not
// ok where start lies beyond the end of s.
func (r *run) piece(name, s string, start, end any) (piece string, before int64, ok bool, err error) {
	start, end = or(start, nil), or(end, nil)
	if start == nil && end == nil {
		return s, 0, true, nil
	}
	if err := r.step(len(s) / 16); err != nil {
		return "", 0, false, err
	}
	n := int64(utf8.RuneCountInString(s))
	i, err := clamped(start, 0, n, 0, n+1)
	if err != nil {
		return "", 0, false, fmt.Errorf("%s: %w", name, err)
	}
	j, err := clamped(end, n, n, 0, n)
	if err != nil {
		return "", 0, false, fmt.Errorf("%s: %w", name, err)
	}
	if i > j {
		return "", i, false, nil
	}
	return s[byteOffset(s, i):byteOffset(s, j)], i, true, nil
}

// byteOffset is where in s the character i begins.
func byteOffset(s string, i int64) int {
	for at := range s {
		if i == 0 {
			return at
		}
		i--
	}
	return len(s)
}

func cutting(name string, cut func(s, affix string) string) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 1, 1)
		if err != nil {
			return nil, err
		}
		s, _ := text(v[0])
		t, err := textArg(name, v[1])
		if err != nil {
			return nil, err
		}
		return r.changed(v[0], cut(s, t))
	}
}

func finding(name string, find func(s, sub string) int, must bool) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.positional(name, 1, 3)
		if err != nil {
			return nil, err
		}
		s, _ := text(v[0])
		sub, err := textArg(name, v[1])
		if err != nil {
			return nil, err
		}
		piece, before, ok, err := r.piece(name, s, v[2], v[3])
		if err != nil {
			return nil, err
		}
		if i := find(piece, sub); ok && i >= 0 {
			return before + int64(utf8.RuneCountInString(piece[:i])), r.step(len(s) / 16)
		}
		if must {
			return nil, errors.New("substring not found")
		}
		return int64(-1), r.step(len(s) / 16)
	}
}

func countIn(r *run, a args) (any, error) {
	v, err := a.positional("count()", 1, 3)
	if err != nil {
		return nil, err
	}
	s, _ := text(v[0])
	sub, err := textArg("count()", v[1])
	if err != nil {
		return nil, err
	}
	piece, _, ok, err := r.piece("count()", s, v[2], v[3])
	if err != nil || !ok {
		return int64(0), err
	}
	return int64(strings.Count(piece, sub)), r.step(len(s) / 16)
}

func replaceIn(r *run, a args) (any, error) {
	v, err := a.positional("replace()", 2, 3)
	if err != nil {
		return nil, err
	}
	n, err := intArg("replace()", v[3], -1)
	if err != nil {
		return nil, err
	}
	s, _ := text(v[0])
	old, err := textArg("replace()", v[1])
	if err != nil {
		return nil, err
	}
	with, err := textArg("replace()", v[2])
	if err != nil {
		return nil, err
	}
	s, err = r.replace(s, old, with, n)
	return keepMarkup(v[0], s), err
}

// replace is strings.Replace with its result charged before it is made.
func (r *run) replace(s, old, with string, n int64) (string, error) {
	times := int64(strings.Count(s, old))
	if n < 0 || n > times {
		n = times
	}
	if len(with) > 0 && n > maxBytes/int64(len(with)) {
		return "", errBytes
	}
	if err := r.charge(len(s) + int(n)*len(with)); err != nil {
		return "", err
	}
	return strings.Replace(s, old, with, int(n)), nil
}

func joinWith(r *run, a args) (any, error) {
	v, err := a.positional("join()", 1, 1)
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[1])
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		s, ok := text(item)
		if !ok {
			return nil, fmt.Errorf("sequence item %d: expected str instance, %s found", i, TypeName(item))
		}
		parts[i] = s
	}
	sep, _ := text(v[0])
	s, err := r.join(parts, sep)
	return keepMarkup(v[0], s), err
}

// join is strings.Join with its result charged before it is made.
func (r *run) join(parts []string, sep string) (string, error) {
	for _, part := range parts {
		if err := r.charge(len(part) + len(sep)); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, sep), nil
}
