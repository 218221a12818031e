package jinja

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
)

// The values of a template are Go values, one type for each of Python's:
//
//	nil                 None
//	bool, int64, float64, string
//	[]any               list (no template may change one, so sharing is safe)
//	Tuple, *Dict        tuple, dict
//	jsonInt             an int too large for int64: it can be printed, not computed with
//	markup              a string that the filters safe and escape made
//	*undefined          a variable, key or attribute that is not there
//	rangeValue, *dictView, *generator   what range, dict.items and lazy filters return
//	callable            functions, methods and macros

// Tuple is a Python tuple.
type Tuple []any

// jsonInt is an integer beyond int64, in its decimal digits.
type jsonInt string

// markup is a string that counts as escaped HTML: adding a plain string to it escapes
// that string, as Python's Markup does.
type markup string

// generator is a sequence that can be gone through once.
type generator struct {
	name  string
	items []any
}

// take returns what is left and leaves nothing.
func (g *generator) take() []any {
	items := g.items
	g.items = nil
	return items
}

// dictView is what dict.keys, dict.values and dict.items return.
type dictView struct {
	name  string
	items []any
}

// rangeValue is what range returns: length numbers from start on.
type rangeValue struct{ start, stop, step, length int64 }

func (v rangeValue) items() []any {
	items := make([]any, v.length)
	for i := range items {
		items[i] = v.start + int64(i)*v.step
	}
	return items
}

// undefined is the value of what is not there. It prints as nothing; using it in any
// other way is an error that says what is missing.
type undefined struct{ message string }

func (u *undefined) err() error { return fmt.Errorf("%s", u.message) }

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
	case rangeValue:
		return "range"
	case *dictView:
		return v.name
	case *generator:
		return "generator"
	case *namespace:
		return "Namespace"
	}
	return "function"
}

// truth is Python's bool(v).
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
	case string:
		return v != ""
	case markup:
		return v != ""
	case []any:
		return len(v) > 0
	case Tuple:
		return len(v) > 0
	case *Dict:
		return v.Len() > 0
	case rangeValue:
		return v.length > 0
	case *dictView:
		return len(v.items) > 0
	}
	return true
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

// integer returns the int in v; a bool counts as 0 or 1.
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

// sequence returns the items of a list or tuple.
func sequence(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case Tuple:
		return v, true
	}
	return nil, false
}

// maxNesting bounds how deeply values may be nested.
const maxNesting = 500

// fromGo turns a value that a caller hands in into one of a template. Maps of Go have no
// order: their keys are sorted.
func fromGo(v any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string, jsonInt, callable:
		return v, nil
	case json.Number:
		return parseNumber(string(v))
	case []any:
		return convertItems(v, depth)
	case Tuple:
		items, err := convertItems(v, depth)
		return Tuple(items), err
	case *Dict:
		if v == nil {
			return nil, nil
		}
		return convertDict(v, depth)
	}
	return fromReflect(reflect.ValueOf(v), depth)
}

func convertItems(items []any, depth int) ([]any, error) {
	out := make([]any, len(items))
	for i, item := range items {
		var err error
		if out[i], err = fromGo(item, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func convertDict(d *Dict, depth int) (any, error) {
	out := new(Dict)
	for key, value := range d.All() {
		value, err := fromGo(value, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", key, err)
		}
		if err := out.insert(key, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func fromReflect(v reflect.Value, depth int) (any, error) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() > math.MaxInt64 {
			return jsonInt(fmt.Sprint(v.Uint())), nil
		}
		return int64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = v.Index(i).Interface()
		}
		return convertItems(items, depth)
	case reflect.Map:
		return fromMap(v, depth)
	}
	return nil, fmt.Errorf("a template cannot use a Go value of type %s", v.Type())
}

func fromMap(v reflect.Value, depth int) (any, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("a template cannot use a Go value of type %s: keys must be strings", v.Type())
	}
	byName := make(map[string]reflect.Value, v.Len())
	for _, key := range v.MapKeys() {
		byName[key.String()] = v.MapIndex(key)
	}
	out := new(Dict)
	for _, name := range slices.SortedFunc(maps.Keys(byName), cmp.Compare[string]) {
		item, err := fromGo(byName[name].Interface(), depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Set(name, item)
	}
	return out, nil
}
