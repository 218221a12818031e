package jinja

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// filters are what may follow a |. Each gets the value, then its arguments.
var filters = map[string]builtin{
	// Of single values.
	"abs": {value, absolute}, "int": {params{"value", "default?", "base?"}, toInt},
	"float": {params{"value", "default?"}, toFloat}, "string": {value, asString},
	"default": defaultTo, "d": defaultTo, "length": length, "count": length,
	"tojson": {params{"x", "ensure_ascii?", "indent?", "separators?", "sort_keys?"}, tojson},

	// Of text; what is none is printed first.
	"upper": {value, mapped(strings.ToUpper)}, "lower": {value, mapped(strings.ToLower)},
	"capitalize": {value, mapped(capitalized)}, "title": {value, mapped(titleFilter)},
	"trim":    {params{"value", "chars?"}, stripping(strings.TrimFunc, strings.Trim)},
	"replace": {params{"s", "old", "new", "count?"}, replaceIn},
	"indent":  {params{"s", "width?", "first?", "blank?"}, indent},
	"safe":    {value, func(r *run, a args) any { return markup(r.str(a.values[0])) }},
	"escape":  {value, escapeFilter}, "e": {value, escapeFilter},

	// Of sequences.
	"first": {value, firstOf}, "last": {value, lastOf}, "list": {value, list},
	"items": {value, items}, "reverse": {value, reverse},
	"join":     {params{"value", "d?", "attribute?"}, joinFilter},
	"sort":     {params{"value", "reverse?", "case_sensitive?", "attribute?"}, sortFilter},
	"dictsort": {params{"value", "case_sensitive?", "by?", "reverse?"}, dictsort},
	"unique":   {params{"value", "case_sensitive?", "attribute?"}, unique},
	"map":      {nil, mapFilter},
	"select":   {nil, selecting(true, false)}, "reject": {nil, selecting(false, false)},
	"selectattr": {nil, selecting(true, true)}, "rejectattr": {nil, selecting(false, true)},
}

// value are the parameters of filters and tests that have none besides their operand.
var value = params{"value"}

var (
	defaultTo = builtin{params{"value", "default_value?", "boolean?"}, orDefault}
	length    = builtin{value, count}
)

func absolute(_ *run, a args) any {
	x, ok := number(a.values[0])
	if !ok {
		mustExist(a.values[0])
		panic(failed("bad operand type for abs(): '%s'", TypeName(a.values[0])))
	}
	return signed(a.values[0], math.Signbit(x))
}

// toInt is the filter int: what is no number becomes the default.
func toInt(_ *run, a args) any {
	base := a.int(2, 10)
	if base < 0 || base > 36 || base == 1 {
		panic(failed("int() base must be 0 or from 2 to 36"))
	}
	v := a.values[0]
	if s, ok := text(v); ok {
		if n, ok := parseInt(strings.TrimFunc(s, isSpace), int(base)); ok {
			return n
		}
	}
	if _, isBig := v.(jsonInt); isBig {
		return v
	}
	if n, ok := integer(v); ok {
		return n
	}
	if x, ok := toNumber(v); ok && math.Abs(x) < 1<<63 {
		return int64(x)
	}
	return a.or(1, int64(0))
}

// parseInt is Python's int(s, base), which takes a prefix such as 0x if it is the base's.
func parseInt(s string, base int) (any, bool) {
	prefixes := map[int]string{2: "0b", 8: "0o", 16: "0x"}
	if p, ok := prefixes[base]; ok && strings.HasPrefix(strings.ToLower(s), p) {
		s = s[len(p):]
	}
	n, err := strconv.ParseInt(s, base, 64)
	if errors.Is(err, strconv.ErrRange) && base == 10 {
		return jsonInt(strings.TrimPrefix(s, "+")), true
	}
	return n, err == nil
}

// toNumber is Python's float(v) for numbers and text.
func toNumber(v any) (float64, bool) {
	if x, ok := number(v); ok {
		return x, true
	}
	s, ok := text(v)
	if !ok || strings.ContainsAny(s, "xXpP") { // hexadecimal floats are Go's
		return 0, false
	}
	x, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64)
	return x, err == nil || math.IsInf(x, 0)
}

// toFloat is the filter float: what is no number becomes the default.
func toFloat(_ *run, a args) any {
	if x, ok := toNumber(a.values[0]); ok {
		return x
	}
	return a.or(1, 0.0)
}

// asString is the filter string, which leaves markup what it is.
func asString(r *run, a args) any {
	if _, ok := a.values[0].(markup); ok {
		return a.values[0]
	}
	return r.str(a.values[0])
}

// orDefault replaces what is undefined, and with the third argument also what is empty.
func orDefault(_ *run, a args) any {
	_, isUndefined := a.values[0].(*undefined)
	if isUndefined || a.flag(2) && !truth(a.values[0]) {
		return a.or(1, "")
	}
	return a.values[0]
}

func count(_ *run, a args) any {
	n, ok := size(a.values[0])
	if !ok {
		panic(failed("object of type '%s' has no len()", TypeName(a.values[0])))
	}
	return int64(n)
}

// titleFilter differs from the method title: a word begins after a blank, a hyphen or an
// opening bracket only.
func titleFilter(s string) string {
	begins := true
	return strings.Map(func(c rune) rune {
		atStart := begins
		begins = isSpace(c) || strings.ContainsRune("-({[<", c)
		if atStart {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

// indent puts blanks, or a text, before every line but the first, and not before empty
// ones; first and blank ask for these too.
func indent(r *run, a args) any {
	by, isText := text(a.or(1, nil))
	if !isText {
		n := max(a.int(1, 4), 0)
		r.chargeTimes(n, 1)
		by = strings.Repeat(" ", int(n))
	}
	lines := strings.Split(a.text(0), "\n")
	for i, line := range lines {
		if i > 0 && (line != "" || a.flag(3)) || i == 0 && a.flag(2) {
			r.charge(len(by))
			lines[i] = by + line
		}
	}
	return keepMarkup(a.values[0], strings.Join(lines, "\n"))
}

// escapeFilter makes text safe for HTML, and does nothing to what is safe already.
func escapeFilter(r *run, a args) any {
	if _, ok := a.values[0].(markup); ok {
		return a.values[0]
	}
	return markup(r.escapeHTML(r.str(a.values[0])))
}

func firstOf(r *run, a args) any { return r.end(a, func(int) int { return 0 }) }
func lastOf(r *run, a args) any  { return r.end(a, func(n int) int { return n - 1 }) }

// end is first or last: of nothing it is undefined.
func (r *run) end(a args, at func(n int) int) any {
	items := r.iterate(a.values[0])
	if len(items) == 0 {
		return &undefined{"no " + a.name + " item, sequence was empty"}
	}
	return items[at(len(items))]
}

func list(r *run, a args) any { return r.iterate(a.values[0]) }

// items is dict.items() that takes what is undefined for an empty dict.
func items(r *run, a args) any {
	switch d := a.values[0].(type) {
	case *undefined:
		return generator(nil)
	case *Dict:
		return generator(r.pairs(d))
	}
	panic(failed("can only get item pairs from a mapping, not from %s", TypeName(a.values[0])))
}
