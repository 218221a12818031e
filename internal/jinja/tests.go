package jinja

import (
	"strings"
	"unicode"
)

// tests are what may follow is. Each gets the value, then its arguments.
var tests = map[string]builtin{
	"defined":   on(func(v any) bool { _, missing := v.(*undefined); return !missing }),
	"undefined": on(func(v any) bool { _, missing := v.(*undefined); return missing }),
	"none":      on(func(v any) bool { return v == nil }),
	"boolean":   on(func(v any) bool { _, ok := v.(bool); return ok }),
	"true":      on(func(v any) bool { b, ok := v.(bool); return ok && b }),
	"false":     on(func(v any) bool { b, ok := v.(bool); return ok && !b }),
	"string":    on(func(v any) bool { _, ok := text(v); return ok }),
	"mapping":   on(func(v any) bool { _, ok := v.(*Dict); return ok }),
	"number":    on(isNumber),
	"integer":   on(isInteger),
	"float":     on(func(v any) bool { _, ok := v.(float64); return ok }),
	"callable":  on(func(v any) bool { _, ok := v.(callable); return ok }),
	"escaped":   on(func(v any) bool { _, ok := v.(markup); return ok }),
	"sequence":  on(isSequence),
	"iterable":  on(isIterable),
	"lower":     cased(unicode.IsLower, unicode.IsUpper),
	"upper":     cased(unicode.IsUpper, unicode.IsLower),
	"odd":       remainder("odd", 1),
	"even":      remainder("even", 0),

	"eq": comparing("=="), "equalto": comparing("=="), "==": comparing("=="),
	"ne": comparing("!="), "!=": comparing("!="),
	"lt": comparing("<"), "lessthan": comparing("<"), "<": comparing("<"),
	"le": comparing("<="), "<=": comparing("<="),
	"gt": comparing(">"), "greaterthan": comparing(">"), ">": comparing(">"),
	"ge": comparing(">="), ">=": comparing(">="),
	"in":          comparing("in"),
	"sameas":      sameAs,
	"divisibleby": divisibleBy,
	"filter":      isFilter,
	"test":        isTest,
}

// on is a test without arguments.
func on(test func(v any) bool) builtin {
	return func(_ *run, a args) (any, error) {
		v, err := a.bind("the test", 1, "value")
		if err != nil {
			return nil, err
		}
		return test(v[0]), nil
	}
}

func comparing(op string) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.bind("the test "+op, 2, "a", "b")
		if err != nil {
			return nil, err
		}
		return r.compare(op, v[0], v[1])
	}
}

func isNumber(v any) bool {
	_, isBig := v.(jsonInt)
	_, ok := number(v)
	return ok || isBig
}

func isInteger(v any) bool {
	_, isBool := v.(bool)
	_, isFloat := v.(float64)
	return isNumber(v) && !isBool && !isFloat
}

func isSequence(v any) bool {
	switch v.(type) {
	case string, markup, []any, Tuple, *Dict, rangeValue, *undefined:
		return true
	}
	return false
}

func isIterable(v any) bool {
	switch v.(type) {
	case *dictView, *generator, *loop:
		return true
	}
	return isSequence(v)
}

// cased tests that a text has letters of one case and none of the other.
func cased(has, hasNot func(rune) bool) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.bind("the test", 1, "value")
		if err != nil {
			return nil, err
		}
		s, err := r.str(v[0])
		if err != nil {
			return nil, err
		}
		return isCased(s, has, hasNot), nil
	}
}

func isCased(s string, has, hasNot func(rune) bool) bool {
	other := func(c rune) bool { return hasNot(c) || unicode.IsTitle(c) }
	return strings.ContainsFunc(s, has) && !strings.ContainsFunc(s, other)
}

func remainder(name string, want int64) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.bind("the test "+name, 1, "value")
		if err != nil {
			return nil, err
		}
		rest, err := r.binary("%", v[0], int64(2))
		if err != nil {
			return nil, err
		}
		return r.equal(rest, want)
	}
}

func divisibleBy(r *run, a args) (any, error) {
	v, err := a.bind("the test divisibleby", 2, "value", "num")
	if err != nil {
		return nil, err
	}
	rest, err := r.binary("%", v[0], v[1])
	if err != nil {
		return nil, err
	}
	return r.equal(rest, int64(0))
}

// sameAs is Python's is.
func sameAs(r *run, a args) (any, error) {
	v, err := a.bind("the test sameas", 2, "value", "other")
	if err != nil {
		return nil, err
	}
	x, ok := sequence(v[0])
	y, ok2 := sequence(v[1])
	if ok || ok2 {
		return ok && ok2 && len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0]), nil
	}
	if d, ok := v[0].(*Dict); ok {
		return any(d) == v[1], nil
	}
	if TypeName(v[0]) != TypeName(v[1]) {
		return false, nil
	}
	return r.equal(v[0], v[1])
}

func isFilter(r *run, a args) (any, error) { return named(a, r.lib.filters) }
func isTest(r *run, a args) (any, error)   { return named(a, r.lib.tests) }

func named(a args, known map[string]builtin) (any, error) {
	v, err := a.bind("the test", 1, "value")
	if err != nil {
		return nil, err
	}
	name, _ := text(v[0])
	_, ok := known[name]
	return ok, nil
}
