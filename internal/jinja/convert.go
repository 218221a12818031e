package jinja

import (
	"encoding/json"
	"maps"
	"slices"
)

// maxNesting bounds how deeply values may be nested.
const maxNesting = 500

// fromGo turns a value that a caller hands in into one of a template. What holds others is
// copied: a caller may change its value while the template runs.
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
	case int:
		return int64(v)
	case json.Number:
		n, err := parseNumber(string(v))
		if err != nil {
			panic(failure{err})
		}
		return n
	case []any:
		return convertedItems(v, depth)
	case Tuple:
		return Tuple(convertedItems(v, depth))
	case *Dict:
		if v == nil {
			return nil
		}
		out := new(Dict)
		for key, value := range v.All() {
			out.insert(key, converted(value, depth+1))
		}
		return out
	case map[string]any: // maps of Go have no order
		out := new(Dict)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out.Set(name, converted(v[name], depth+1))
		}
		return out
	}
	panic(failed("a template cannot use a Go value of type %T; want bool, int, float64, string, []any, "+
		"map[string]any or what ParseJSON returns", v))
}

func convertedItems(items []any, depth int) []any {
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = converted(item, depth+1)
	}
	return out
}
