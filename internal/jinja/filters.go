package jinja

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
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
