package jinja

import (
	"fmt"
	"slices"
	"strings"
)

func first(r *run, a args) (any, error) { return end(r, a, "first", 0) }
func last(r *run, a args) (any, error)  { return end(r, a, "last", -1) }

func end(r *run, a args, name string, at int) (any, error) {
	v, err := a.bind(name, 1, "seq")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return &undefined{"no " + name + " item, sequence was empty"}, nil
	}
	return items[(at+len(items))%len(items)], nil
}

func list(r *run, a args) (any, error) {
	v, err := a.bind("list", 1, "value")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	if items == nil {
		items = []any{}
	}
	return items, nil
}

func joinFilter(r *run, a args) (any, error) {
	v, err := a.bind("join", 1, "value", "d", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	get, err := r.getter(or(v[2], nil), nil)
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(items))
	for i, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if parts[i], err = r.str(item); err != nil {
			return nil, err
		}
	}
	sep, err := r.str(or(v[1], ""))
	if err != nil {
		return nil, err
	}
	s, err := r.join(parts, sep)
	return s, err
}

func reverse(r *run, a args) (any, error) {
	v, err := a.bind("reverse", 1, "value")
	if err != nil {
		return nil, err
	}
	if s, ok := text(v[0]); ok {
		if err := r.charge(4 * len(s)); err != nil {
			return nil, err
		}
		chars := []rune(s)
		slices.Reverse(chars)
		return string(chars), nil
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return &generator{"reversed", items}, r.chargeItems(len(items))
}

// getter returns a function that reads the attribute of an item: name, name.name, or a
// number; nil is the item itself. What is undefined becomes instead, unless that is nil.
func (r *run) getter(attribute, instead any) (func(item any) (any, error), error) {
	var path []any
	switch attribute := attribute.(type) {
	case nil:
	case int64:
		path = []any{attribute}
	default:
		s, ok := text(attribute)
		if !ok {
			return nil, fmt.Errorf("an attribute must be a name or a number, not %s", TypeName(attribute))
		}
		for _, part := range strings.Split(s, ".") {
			path = append(path, fieldKey(part))
		}
	}
	return func(item any) (any, error) {
		var err error
		for _, key := range path {
			if item, err = r.item(item, key); err != nil {
				return nil, err
			}
			if _, absent := item.(*undefined); absent && instead != nil {
				item = instead
			}
		}
		return item, nil
	}, nil
}

// sortKey is what an item is sorted by: text in small letters, unless case matters.
func sortKey(v any, caseMatters bool) any {
	if s, ok := text(v); ok && !caseMatters {
		return strings.ToLower(s)
	}
	return v
}

// sorted sorts items by their keys, keeping the order of those that are equal.
func (r *run) sorted(items, keys []any, descending bool) ([]any, error) {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		c, ok, err := r.order(keys[i], keys[j])
		if err == nil && !ok {
			err = fmt.Errorf("'<' not supported between instances of '%s' and '%s'", TypeName(keys[i]), TypeName(keys[j]))
		}
		failed = err
		if descending {
			return -c
		}
		return c
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]any, len(items))
	for k, i := range order {
		out[k] = items[i]
	}
	return out, r.chargeItems(2 * len(items))
}

func sortFilter(r *run, a args) (any, error) {
	v, err := a.bind("sort", 1, "value", "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	keys := make([]any, len(items))
	for i, item := range items {
		if keys[i], err = r.itemKey(item, or(v[3], nil), truth(or(v[2], false))); err != nil {
			return nil, err
		}
	}
	sorted, err := r.sorted(items, keys, truth(or(v[1], false)))
	return sorted, err
}

// itemKey is the key of an item by one attribute, or by several with commas between: a
// list, as in Jinja, so that items that are equal need no order.
func (r *run) itemKey(item, attributes any, caseMatters bool) (any, error) {
	parts := []any{attributes}
	if names, ok := text(attributes); ok {
		parts = parts[:0]
		for _, name := range strings.Split(names, ",") {
			parts = append(parts, name)
		}
	}
	keys := make([]any, len(parts))
	for i, part := range parts {
		get, err := r.getter(part, nil)
		if err != nil {
			return nil, err
		}
		v, err := get(item)
		if err != nil {
			return nil, err
		}
		keys[i] = sortKey(v, caseMatters)
	}
	return keys, nil
}

func (w *jsonWriter) sortEntries(entries []entry) ([]entry, error) {
	items, keys := make([]any, len(entries)), make([]any, len(entries))
	for i, e := range entries {
		items[i], keys[i] = e, e.key
	}
	items, err := w.sorted(items, keys, false)
	if err != nil {
		return nil, err
	}
	out := make([]entry, len(items))
	for i, item := range items {
		out[i] = item.(entry)
	}
	return out, nil
}
