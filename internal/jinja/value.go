package jinja

import "unicode/utf8"

// The values of a template are Go values, one type for each of Python's:
//
//	nil                 None
//	bool, int64, float64, string
//	[]any               list (no template may change one, so sharing is safe)
//	Tuple, *Dict        tuple, dict
//	jsonInt             an int too large for int64: it can be printed, not computed with
//	markup              what the filter safe makes: it can be printed, joined and compared
//	*undefined          a variable, key or attribute that is not there
//	*view               what range, dict.items and lazy filters return
//	*namespace, *loop   what namespace() makes, and the variable of a for block
//	callable            functions, methods and macros

// Tuple is a Python tuple.
type Tuple []any

// jsonInt is an integer beyond int64, in its decimal digits.
type jsonInt string

// markup is a string that counts as escaped HTML. What Python's Markup is added to is escaped,
// so that '<b>' + x|safe has &lt; in it. A chat template that came to that would be mistaken:
// here such a string is for printing, and most other ways to use it are errors.
type markup string

// mustNotBeMarkup fails if v is text that the filter safe has made.
func mustNotBeMarkup(v any) {
	if _, ok := v.(markup); ok {
		panic(failed("Jinja escapes what is added to text after the filter safe, which this is not able to: " +
			"write |safe last, or leave it out"))
	}
}

// view is a sequence that is neither list nor tuple: it has items, but prints its own way.
type view struct {
	kind  string // what Python calls its type
	items []any
	shown string // how it prints; empty is as kind([items]), and a generator does not
	once  bool   // a generator: who goes through its items leaves none
}

// generator is what the lazy filters of Jinja return: map, select, reject and their kind, items,
// unique and reverse. It can be gone through once, has no length, and is true even if empty, so
// that {% if tools|selectattr('x') %} holds whatever there is: a mistake in many templates,
// which must render as it does in Python.
func generator(items []any) any {
	return &view{kind: "generator", items: items, once: true}
}

// undefined is the value of what is not there. As jinja2's class Undefined it prints as nothing, is
// false, empty to a loop, and equal to its like; most other uses, such as an attribute of it,
// are errors that say what is missing. So {{ a.b.c }} fails without a.b, and not without c.
type undefined struct{ message string }

// mustExist fails if v is undefined, or nothing but printable.
func mustExist(v any) {
	mustNotBeMarkup(v)
	if u, ok := v.(*undefined); ok {
		panic(failed("%s", u.message))
	}
}

// TypeName is what Python calls the type of v.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, jsonInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case []any:
		return "list"
	case Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *view:
		return v.kind
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// truth is Python's bool(v): zero, None and what is empty are false, and '0' and 'false' are not.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case *view:
		return v.once || len(v.items) > 0
	}
	n, ok := size(v)
	return !ok || n > 0
}

// size is the number of characters, items or keys in v, and whether v has such.
func size(v any) (int, bool) {
	if s, ok := text(v); ok {
		return utf8.RuneCountInString(s), true
	}
	switch v := v.(type) {
	case []any:
		return len(v), true
	case Tuple:
		return len(v), true
	case *Dict:
		return v.Len(), true
	case *view:
		return len(v.items), !v.once
	case *undefined:
		return 0, true
	}
	return 0, false
}

// text returns the string in v, be it plain or markup.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// integer returns the int in v. A bool counts as 0 or 1, as Python's bool is a kind of int: 1 == true
// holds, true + 1 is 2, and true is number.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// number returns v as a float if it is any number.
func number(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	n, ok := integer(v)
	return float64(n), ok
}

// indexable returns the items of what can be indexed by position: lists, tuples, ranges.
func indexable(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case Tuple:
		return v, true
	case *view:
		return v.items, v.kind == "range"
	}
	return nil, false
}
