package jinja

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// maxNesting bounds how deeply values may be nested.
const maxNesting = 500

// fromGo turns a value that a caller hands in into one of a template. It is a copy: a
// caller may change its value while the template runs.
func fromGo(v any) (out any, err error) {
	defer catch(&err)
	return converted(v, 0), nil
}

// converted fails for what no template value stands for.
func converted(v any, depth int) any {
	if depth > maxNesting {
		panic(failed("nested more than %d deep", maxNesting))
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string, jsonInt:
		return v
	case json.Number:
		n, err := parseNumber(string(v))
		if err != nil {
			panic(failure{err})
		}
		return n
	case Tuple:
		return Tuple(convertedItems(reflect.ValueOf(v), depth))
	case *Dict:
		if v == nil {
			return nil
		}
		out := new(Dict)
		for key, value := range v.All() {
			out.insert(key, converted(value, depth+1))
		}
		return out
	}
	return fromReflect(reflect.ValueOf(v), depth)
}

// fromReflect converts the types that callers define themselves, and the sizes of number
// that templates do not have.
func fromReflect(v reflect.Value, depth int) any {
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.CanInt():
		return v.Int()
	case v.CanUint() && v.Uint() > math.MaxInt64:
		return jsonInt(strconv.FormatUint(v.Uint(), 10))
	case v.CanUint():
		return int64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.Slice:
		return convertedItems(v, depth)
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		return fromMap(v, depth)
	}
	panic(failed("a template cannot use a Go value of type %s; want numbers, strings, slices, "+
		"and maps with strings as keys", v.Type()))
}

func convertedItems(v reflect.Value, depth int) []any {
	out := make([]any, v.Len())
	for i := range out {
		out[i] = converted(v.Index(i).Interface(), depth+1)
	}
	return out
}

// fromMap makes a dict of a map. Maps of Go have no order: their keys are sorted.
func fromMap(v reflect.Value, depth int) *Dict {
	byName := make(map[string]any, v.Len())
	for _, key := range v.MapKeys() {
		byName[key.String()] = v.MapIndex(key).Interface()
	}
	out := new(Dict)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out.Set(name, converted(byName[name], depth+1))
	}
	return out
}
