package jinja

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// filters are what may follow a |. Each gets the value, then its arguments.
var filters = map[string]builtin{
	// Of single values.
	"abs": absolute, "int": toInt, "float": toFloat, "round": round,
	"string": asString, "default": defaultTo, "d": defaultTo,
	"length": count, "count": count, "attr": attr, "tojson": tojson,

	// Of text.
	"upper": textFilter(strings.ToUpper), "lower": textFilter(strings.ToLower),
	"capitalize": textFilter(capitalized), "title": textFilter(titleFilter),
	"trim": trim, "replace": replaceFilter, "indent": indent, "center": center, "format": formatFilter,
	"truncate": truncate, "wordcount": wordcount, "urlencode": urlencode,
	"safe": safe, "escape": escapeFilter, "e": escapeFilter, "forceescape": forceEscape,

	// Of sequences.
	"first": first, "last": last, "list": list, "join": joinFilter, "reverse": reverse,
	"sort": sortFilter, "unique": unique, "min": extreme("min", -1), "max": extreme("max", 1), "sum": sum,
	"map": mapFilter, "select": selecting("select", true, false), "reject": selecting("reject", false, false),
	"selectattr": selecting("selectattr", true, true), "rejectattr": selecting("rejectattr", false, true),
	"groupby": groupby, "batch": batch, "slice": sliceFilter,
	"items": items, "dictsort": dictsort,
}

func absolute(_ *run, a args) (any, error) {
	v, err := a.bind("abs", 1, "x")
	if err != nil {
		return nil, err
	}
	x, ok := number(v[0])
	if !ok {
		if u, ok := v[0].(*undefined); ok {
			return nil, u.err()
		}
		return nil, fmt.Errorf("bad operand type for abs(): '%s'", TypeName(v[0]))
	}
	return sign(v[0], x < 0 || math.Signbit(x))
}

func toInt(_ *run, a args) (any, error) {
	v, err := a.bind("int", 1, "value", "default", "base")
	if err != nil {
		return nil, err
	}
	base, err := intArg("int", v[2], 10)
	if err != nil || base < 0 || base > 36 || base == 1 {
		return nil, errors.New("int() base must be 0 or from 2 to 36")
	}
	if s, ok := text(v[0]); ok {
		if n, ok := parseInt(strings.TrimFunc(s, isSpace), int(base)); ok {
			return n, nil
		}
	}
	if x, ok := toNumber(v[0]); ok && math.Abs(x) < 1<<63 {
		if n, ok := integer(v[0]); ok {
			return n, nil
		}
		return int64(x), nil
	}
	if n, ok := v[0].(jsonInt); ok {
		return n, nil
	}
	return or(v[1], int64(0)), nil
}

func parseInt(s string, base int) (any, bool) {
	prefixes := map[int]string{2: "0b", 8: "0o", 16: "0x"}
	if p, ok := prefixes[base]; ok && strings.HasPrefix(strings.ToLower(s), p) {
		s = s[2:]
	}
	if base == 10 {
		s = strings.ReplaceAll(s, "_", "")
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

func toFloat(_ *run, a args) (any, error) {
	v, err := a.bind("float", 1, "value", "default")
	if err != nil {
		return nil, err
	}
	if x, ok := toNumber(v[0]); ok {
		return x, nil
	}
	return or(v[1], 0.0), nil
}

func round(_ *run, a args) (any, error) {
	v, err := a.bind("round", 1, "value", "precision", "method")
	if err != nil {
		return nil, err
	}
	x, ok := number(v[0])
	if !ok {
		return nil, fmt.Errorf("round wants a number, not %s", TypeName(v[0]))
	}
	precision, err := intArg("round", v[1], 0)
	if err != nil {
		return nil, err
	}
	scale := math.Pow(10, float64(precision))
	switch or(v[2], "common") {
	case "ceil":
		return math.Ceil(x*scale) / scale, nil
	case "floor":
		return math.Floor(x*scale) / scale, nil
	case "common":
		return roundCommon(v[0], x, precision)
	}
	return nil, errors.New("round: method must be common, ceil or floor")
}

// roundCommon rounds as Python's round does: the decimal nearest to the exact value of
// the float, and an int stays an int.
func roundCommon(v any, x float64, precision int64) (any, error) {
	if n, ok := integer(v); ok && precision >= 0 {
		return n, nil
	}
	if precision < 0 {
		scale := math.Pow(10, float64(-precision))
		x = math.RoundToEven(x/scale) * scale
	} else if s := strconv.FormatFloat(x, 'f', int(min(precision, maxDigits)), 64); true {
		x, _ = strconv.ParseFloat(s, 64)
	}
	if _, ok := integer(v); ok {
		return int64(x), nil
	}
	return x, nil
}

func asString(r *run, a args) (any, error) {
	v, err := a.bind("string", 1, "object")
	if err != nil {
		return nil, err
	}
	if _, ok := text(v[0]); ok {
		return v[0], nil
	}
	return r.str(v[0])
}

func defaultTo(_ *run, a args) (any, error) {
	v, err := a.bind("default", 1, "value", "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	_, isUndefined := v[0].(*undefined)
	if isUndefined || truth(or(v[2], false)) && !truth(v[0]) {
		return or(v[1], ""), nil
	}
	return v[0], nil
}

func count(_ *run, a args) (any, error) {
	v, err := a.bind("length", 1, "obj")
	if err != nil {
		return nil, err
	}
	return length(v[0])
}

// attr is an attribute, never an item.
func attr(r *run, a args) (any, error) {
	v, err := a.bind("attr", 2, "obj", "name")
	if err != nil {
		return nil, err
	}
	name, err := r.str(v[1])
	if err != nil {
		return nil, err
	}
	if u, ok := v[0].(*undefined); ok {
		return nil, u.err()
	}
	if found, ok := r.attributeOf(v[0], name); ok {
		return found, nil
	}
	return missingAttribute(v[0], name), nil
}

// tojson is the filter of transformers: json.dumps without escaping what is not ASCII, and
// without Jinja's own escaping of HTML.
func tojson(r *run, a args) (any, error) {
	v, err := a.bind("tojson", 1, "x", "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	style := jsonStyle{itemSep: ", ", keySep: ": ", ascii: truth(or(v[1], false)), sortKeys: truth(or(v[4], false))}
	switch indent := or(v[2], nil).(type) {
	case nil:
	case string:
		style.pretty, style.indent, style.itemSep = true, indent, ","
	default:
		n, err := intArg("tojson: indent", indent, 0)
		if err != nil {
			return nil, err
		}
		style.pretty, style.itemSep = true, ","
		style.indent = strings.Repeat(" ", int(max(0, min(n, 1000))))
	}
	if separators, ok := sequence(or(v[3], nil)); ok {
		if len(separators) != 2 {
			return nil, errors.New("tojson: separators must be two strings")
		}
		style.itemSep, _ = text(separators[0])
		style.keySep, _ = text(separators[1])
	}
	s, err := r.toJSON(v[0], style)
	return s, err
}

// textFilter makes another text of the value's.
func textFilter(f func(string) string) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.bind("the filter", 1, "s")
		if err != nil {
			return nil, err
		}
		s, err := r.str(v[0])
		if err != nil {
			return nil, err
		}
		return r.changed(v[0], f(s))
	}
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

func trim(r *run, a args) (any, error) {
	v, err := a.bind("trim", 1, "value", "chars")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	if or(v[1], nil) == nil {
		return r.changed(v[0], strings.TrimFunc(s, isSpace))
	}
	chars, err := textArg("trim", v[1])
	if err != nil {
		return nil, err
	}
	return r.changed(v[0], strings.Trim(s, chars))
}

func replaceFilter(r *run, a args) (any, error) {
	v, err := a.bind("replace", 3, "s", "old", "new", "count")
	if err != nil {
		return nil, err
	}
	n := int64(-1)
	if limit := or(v[3], nil); limit != nil {
		if n, err = intArg("replace", limit, -1); err != nil {
			return nil, err
		}
	}
	var s [3]string
	for i := range s {
		if s[i], err = r.str(v[i]); err != nil {
			return nil, err
		}
	}
	out, err := r.replace(s[0], s[1], s[2], n)
	return out, err
}

// indent puts blanks before every line but the first, and not before empty ones.
func indent(r *run, a args) (any, error) {
	v, err := a.bind("indent", 1, "s", "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	s, err := textArg("indent", v[0])
	if err != nil {
		return nil, err
	}
	by, isText := text(or(v[1], nil))
	if !isText {
		n, err := intArg("indent", v[1], 4)
		if err != nil {
			return nil, err
		}
		if by, err = r.pad("", " ", n, func(int, int) int { return 0 }); err != nil {
			return nil, err
		}
	}
	lines := strings.Split(s, "\n")
	blank := truth(or(v[3], false))
	for i, line := range lines {
		if i > 0 && (blank || line != "") || i == 0 && truth(or(v[2], false)) {
			if err := r.charge(len(by)); err != nil {
				return nil, err
			}
			lines[i] = by + line
		}
	}
	out, err := r.join(lines, "\n")
	return keepMarkup(v[0], out), err
}

func center(r *run, a args) (any, error) {
	v, err := a.bind("center", 1, "value", "width")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	width, err := intArg("center", v[1], 80)
	if err != nil {
		return nil, err
	}
	s, err = r.pad(s, " ", width, half)
	return keepMarkup(v[0], s), err
}

func formatFilter(r *run, a args) (any, error) {
	format, err := r.str(a.values[0])
	if err != nil {
		return nil, err
	}
	if len(a.named) > 0 && len(a.values) > 1 {
		return nil, errors.New("format takes values or names, not both")
	}
	var values any = Tuple(a.values[1:])
	if len(a.named) > 0 {
		d := new(Dict)
		for _, n := range a.named {
			d.Set(n.name, n.value)
		}
		values = d
	}
	s, err := r.percent(format, values)
	return keepMarkup(a.values[0], s), err
}

// truncate shortens a text to length characters, at the end of a word.
func truncate(r *run, a args) (any, error) {
	v, err := a.bind("truncate", 1, "s", "length", "killwords", "end", "leeway")
	if err != nil {
		return nil, err
	}
	s, err := textArg("truncate", v[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg("truncate", v[1], 255)
	if err != nil {
		return nil, err
	}
	leeway, err := intArg("truncate", or(v[4], int64(5)), 5)
	if err != nil {
		return nil, err
	}
	end, err := textArg("truncate", or(v[3], "..."))
	if err != nil {
		return nil, err
	}
	chars := []rune(s)
	size := int64(len(chars))
	if size <= n+leeway {
		return v[0], nil
	}
	room := n - int64(len([]rune(end)))
	if room < 0 {
		return nil, fmt.Errorf("truncate: expected length >= %d, got %d", len([]rune(end)), n)
	}
	s = string(chars[:room])
	if i := strings.LastIndex(s, " "); i >= 0 && !truth(or(v[2], false)) {
		s = s[:i]
	}
	return r.changed(v[0], s+end)
}

func wordcount(r *run, a args) (any, error) {
	v, err := a.bind("wordcount", 1, "s")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	words := strings.FieldsFunc(s, func(c rune) bool {
		return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c)
	})
	return int64(len(words)), r.step(len(s) / 16)
}

const upperHex = "0123456789ABCDEF"

// urlencode quotes a text for a URL; slashes stay.
func urlencode(r *run, a args) (any, error) {
	v, err := a.bind("urlencode", 1, "value")
	if err != nil {
		return nil, err
	}
	s, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	if err := r.charge(3 * len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 0x80 && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) || strings.IndexByte("_.-~/", c) >= 0) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String(), nil
}

// escapeHTML replaces the five characters that mean something in HTML.
func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

func safe(r *run, a args) (any, error) {
	s, err := asString(r, a)
	if err != nil {
		return nil, err
	}
	t, _ := text(s)
	return markup(t), nil
}

func escapeFilter(r *run, a args) (any, error) {
	if len(a.values) == 1 {
		if m, ok := a.values[0].(markup); ok {
			return m, nil
		}
	}
	return forceEscape(r, a)
}

func forceEscape(r *run, a args) (any, error) {
	s, err := asString(r, a)
	if err != nil {
		return nil, err
	}
	t, _ := text(s)
	if err := r.charge(5 * len(t)); err != nil {
		return nil, err
	}
	return markup(escapeHTML(t)), nil
}
