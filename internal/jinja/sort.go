package jinja

import (
	"slices"
	"strings"
)

func reverse(r *run, a args) any {
	if s, ok := a.values[0].(string); ok {
		chars := []rune(s)
		slices.Reverse(chars)
		return string(chars)
	}
	items := slices.Clone(r.iterate(a.values[0]))
	slices.Reverse(items)
	return generator(items)
}

// sortKey is what an item is sorted by: text in small letters, unless case matters. Python's own
// sorted would have 'B' before 'a'; Jinja's filters sort, dictsort and unique do not.
func sortKey(v any, caseMatters bool) any {
	if s, ok := v.(string); ok && !caseMatters {
		return strings.ToLower(s)
	}
	return v
}

// sorted sorts items by their keys, keeping the order of those that are equal.
func sorted[T any](r *run, items []T, descending bool, key func(T) any) []T {
	r.charge(2 * itemSize * len(items))
	type keyed struct {
		key  any
		item T
	}
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{key(item), item}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		if r.equal(a.key, b.key) { // what has no order needs none then, such as two of None
			return 0
		}
		c, ok := r.order(a.key, b.key)
		if !ok {
			panic(failed("'<' not supported between instances of '%s' and '%s'", TypeName(a.key), TypeName(b.key)))
		}
		if descending {
			return -c
		}
		return c
	})
	out := make([]T, len(items))
	for i, k := range all {
		out[i] = k.item
	}
	return out
}

// sortFilter sorts by the items, or by an attribute of theirs.
func sortFilter(r *run, a args) any {
	get := r.getter(a.or(3, nil), nil)
	return sorted(r, r.iterate(a.values[0]), a.flag(1), func(item any) any { return sortKey(get(item), a.flag(2)) })
}

// dictsort returns the (key, value) tuples of a dict in the order of their keys or values.
func dictsort(r *run, a args) any {
	d, ok := a.values[0].(*Dict)
	if !ok {
		panic(failed("dictsort wants a mapping, not %s", TypeName(a.values[0])))
	}
	by, _ := a.or(2, "key").(string)
	at := slices.Index([]string{"key", "value"}, by)
	if at < 0 {
		panic(failed("dictsort: you can only sort by either 'key' or 'value'"))
	}
	return sorted(r, r.pairs(d), a.flag(3), func(pair any) any { return sortKey(pair.(Tuple)[at], a.flag(1)) })
}
