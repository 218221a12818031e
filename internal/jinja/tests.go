package jinja

import (
	"strings"
	"unicode"
)

// tests are what may follow is. Each gets the value, then its arguments.
var tests = map[string]builtin{
	"defined":   {value, on(func(v any) bool { return !isUndefined(v) })},
	"undefined": {value, on(isUndefined)},
	"none":      {value, on(func(v any) bool { return v == nil })},
	"boolean":   {value, on(func(v any) bool { return v == true || v == false })},
	"true":      {value, on(func(v any) bool { return v == true })},
	"false":     {value, on(func(v any) bool { return v == false })},
	"string":    {value, on(func(v any) bool { _, ok := text(v); return ok })},
	"mapping":   {value, on(func(v any) bool { _, ok := v.(*Dict); return ok })},
	"number":    {value, on(isNumber)},
	"integer":   {value, on(func(v any) bool { return TypeName(v) == "int" })},
	"float":     {value, on(func(v any) bool { return TypeName(v) == "float" })},
	"callable":  {value, on(isCallable)},
	"sequence":  {value, on(isSequence)},
	"iterable":  {value, on(isIterable)},
	"lower":     {value, cased(unicode.IsLower, unicode.IsUpper)},
	"upper":     {value, cased(unicode.IsUpper, unicode.IsLower)},
	"odd":       {value, func(r *run, a args) any { return r.remainder(a.values[0], int64(2), 1) }},
	"even":      {value, func(r *run, a args) any { return r.remainder(a.values[0], int64(2), 0) }},
	"divisibleby": {params{"value", "num"}, func(r *run, a args) any {
		return r.remainder(a.values[0], a.values[1], 0)
	}},

	"eq": comparing("=="), "equalto": comparing("=="), "==": comparing("=="),
	"ne": comparing("!="), "!=": comparing("!="),
	"lt": comparing("<"), "lessthan": comparing("<"), "<": comparing("<"),
	"le": comparing("<="), "<=": comparing("<="),
	"gt": comparing(">"), "greaterthan": comparing(">"), ">": comparing(">"),
	"ge": comparing(">="), ">=": comparing(">="),
	"in": comparing("in"),
}

// on is a test of the value alone.
func on(test func(v any) bool) func(*run, args) any {
	return func(_ *run, a args) any { return test(a.values[0]) }
}

func comparing(op string) builtin {
	return builtin{params{"a", "b"}, func(r *run, a args) any { return r.compare(op, a.values[0], a.values[1]) }}
}

func isUndefined(v any) bool {
	_, ok := v.(*undefined)
	return ok
}

// isNumber is true of a bool, which Python takes for an integer.
func isNumber(v any) bool {
	_, isBig := v.(jsonInt)
	_, ok := number(v)
	return ok || isBig
}

// isCallable is true of what is undefined, too, which Python can call to fail.
func isCallable(v any) bool {
	_, ok := v.(callable)
	return ok || isUndefined(v)
}

func isSequence(v any) bool {
	switch v := v.(type) {
	case string, markup, []any, Tuple, *Dict, *undefined:
		return true
	case *view:
		return v.kind == "range"
	}
	return false
}

func isIterable(v any) bool {
	_, isView := v.(*view)
	return isView || isSequence(v)
}

// cased is lower and upper, Python's islower and isupper: it tests that a text has letters of
// one case and none of the other.
func cased(has, hasNot func(rune) bool) func(*run, args) any {
	return func(r *run, a args) any {
		s := a.printed(r, 0)
		other := func(c rune) bool { return hasNot(c) || unicode.IsTitle(c) }
		return strings.ContainsFunc(s, has) && !strings.ContainsFunc(s, other)
	}
}

// remainder tells whether v divided by n leaves want.
func (r *run) remainder(v, n any, want int64) bool { return r.equal(r.binary("%", v, n), want) }
