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

// sortKey is what an item is sorted by: text in small letters, unless case matters.
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

// sortFilter sorts by the items, or by one attribute of theirs or several with commas
// between.
func sortFilter(r *run, a args) any {
	attributes := []any{a.or(3, nil)}
	if names, ok := attributes[0].(string); ok {
		attributes = attributes[:0]
		for _, name := range strings.Split(names, ",") {
			attributes = append(attributes, name)
		}
	}
	items := r.iterate(a.values[0])
	keys := make([]any, len(items))
	for i, item := range items {
		// A list also of one: lists that are equal need no order of what is in them.
		key := make([]any, len(attributes))
		for j, attribute := range attributes {
			key[j] = sortKey(r.getter(attribute, nil)(item), a.flag(2))
		}
		keys[i] = key
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
