package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// filters are what may follow a |. Each gets the value, then its arguments.
var filters = map[string]builtin{
	// Of single values.
	"abs": {value, absolute}, "int": {params{"value", "default?"}, toInt},
	"float": {params{"value", "default?"}, toFloat}, "string": {value, mapped(func(s string) string { return s })},
	"default": defaultTo, "d": defaultTo, "length": length, "count": length,
	"tojson": {params{"x", "ensure_ascii?", "indent?", "separators?", "sort_keys?"}, tojson},

	// Of text; what is none is printed first.
	"upper": {value, mapped(strings.ToUpper)}, "lower": {value, mapped(strings.ToLower)},
	"capitalize": {value, mapped(capitalized)}, "title": {value, mapped(titleFilter)},
	"trim":    {params{"value", "chars?"}, stripping(strings.TrimFunc, strings.Trim)},
	"replace": {params{"s", "old", "new", "count?"}, replaceIn},
	"indent":  {params{"s", "width?", "first?", "blank?"}, indent},
	"safe":    {value, func(r *run, a args) any { return markup(r.str(a.values[0])) }},

	// Of sequences.
	"first": {value, end(false)}, "last": {value, end(true)}, "list": {value, list},
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
	v := a.values[0]
	mustExist(v)
	if s, ok := v.(string); ok {
		if n, err := parseNumber(strings.TrimFunc(s, isSpace)); err == nil {
			v = n
		}
	}
	if _, isBig := v.(jsonInt); isBig {
		return v
	}
	if n, ok := integer(v); ok {
		return n
	}
	if x, ok := v.(float64); ok && math.Abs(x) < 1<<63 {
		return int64(x)
	}
	return a.or(1, int64(0))
}

// toFloat is the filter float: what is no number becomes the default.
func toFloat(_ *run, a args) any {
	mustExist(a.values[0])
	x, ok := number(a.values[0])
	s, isText := a.values[0].(string)
	if digits, isBig := a.values[0].(jsonInt); isBig {
		s, isText = string(digits), true
	}
	if isText && !strings.ContainsAny(s, "xX") { // 0x1p3 is Go's
		var err error
		x, err = strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64)
		ok = err == nil || math.IsInf(x, 0)
	}
	if !ok {
		return a.or(1, 0.0)
	}
	return finite(x)
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

// lineEnds makes line feeds of all that Python's splitlines takes for the end of a line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\x1c", "\n", "\x1d", "\n",
	"\x1e", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// indent puts blanks, or a text, before every line but the first, and not before empty
// ones; first and blank ask for these too. Lines then end with line feeds, however they did. As in Python, a line feed
// is put behind the text and taken away again, and a carriage return at its end with it.
func indent(r *run, a args) any {
	by, isText := a.or(1, nil).(string)
	if !isText {
		n := max(a.int(1, 4), 0)
		r.chargeTimes(n, 1)
		by = strings.Repeat(" ", int(n))
	}
	lines := strings.Split(strings.TrimSuffix(lineEnds.Replace(a.text(0)+"\n"), "\n"), "\n")
	for i, line := range lines {
		if i > 0 && (line != "" || a.flag(3)) || i == 0 && a.flag(2) {
			r.charge(len(by))
			lines[i] = by + line
		}
	}
	return strings.Join(lines, "\n")
}

// end is first or last: of nothing it is undefined.
func end(last bool) func(*run, args) any {
	return func(r *run, a args) any {
		items := r.iterate(a.values[0])
		switch {
		case len(items) == 0:
			return &undefined{"no " + a.name + " item, sequence was empty"}
		case last:
			return items[len(items)-1]
		}
		return items[0]
	}
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
