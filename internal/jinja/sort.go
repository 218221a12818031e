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
func sorted[T any](r *run, items []T, keys []any, descending bool) []T {
	r.charge(2 * itemSize * len(items))
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if r.equal(keys[i], keys[j]) { // what has no order needs none then, such as two of None
			return 0
		}
		c, ok := r.order(keys[i], keys[j])
		if !ok {
			panic(failed("'<' not supported between instances of '%s' and '%s'", TypeName(keys[i]), TypeName(keys[j])))
		}
		if descending {
			return -c
		}
		return c
	})
	out := make([]T, len(items))
	for k, i := range order {
		out[k] = items[i]
	}
	return out
}

// sortFilter sorts by the items, or by an attribute of theirs.
func sortFilter(r *run, a args) any {
	items, get := r.iterate(a.values[0]), r.getter(a.or(3, nil), nil)
	keys := make([]any, len(items))
	for i, item := range items {
		keys[i] = sortKey(get(item), a.flag(2))
	}
	return sorted(r, items, keys, a.flag(1))
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
	pairs := r.pairs(d)
	keys := make([]any, len(pairs))
	for i, pair := range pairs {
		keys[i] = sortKey(pair.(Tuple)[at], a.flag(1))
	}
	return sorted(r, pairs, keys, a.flag(3))
}

func (p *printer) sortedEntries(entries []entry) []entry {
	keys := make([]any, len(entries))
	for i, e := range entries {
		keys[i] = e.key
	}
	return sorted(p.run, entries, keys, false)
}
