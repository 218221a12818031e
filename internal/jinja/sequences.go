package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// keep returns the items for which want is true.
func keep(items []any, want func(item any) (bool, error)) ([]any, error) {
	kept := []any{}
	for _, item := range items {
		ok, err := want(item)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

func unique(r *run, a args) (any, error) {
	v, err := a.bind("unique", 1, "value", "case_sensitive", "attribute")
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
	seen := map[any]bool{}
	kept, err := keep(items, func(item any) (bool, error) {
		key, err := get(item)
		if err != nil {
			return false, err
		}
		h, err := hashKey(sortKey(key, truth(or(v[1], false))))
		if err != nil || seen[h] {
			return false, err
		}
		seen[h] = true
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return &generator{"do_unique", kept}, r.chargeItems(len(kept))
}

// extreme is min and max: want is how the order of a better item compares.
func extreme(name string, want int) builtin {
	return func(r *run, a args) (any, error) {
		v, err := a.bind(name, 1, "value", "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		items, err := r.iterate(v[0])
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &undefined{"no aggregated item, sequence was empty"}, nil
		}
		get, err := r.getter(or(v[2], nil), nil)
		if err != nil {
			return nil, err
		}
		var best, bestKey any
		for i, item := range items {
			key, err := get(item)
			if err != nil {
				return nil, err
			}
			key = sortKey(key, truth(or(v[1], false)))
			if i == 0 {
				best, bestKey = item, key
				continue
			}
			order, ok, err := r.order(key, bestKey)
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, fmt.Errorf("%s: '%s' and '%s' have no order", name, TypeName(key), TypeName(bestKey))
			}
			if order == want {
				best, bestKey = item, key
			}
		}
		return best, nil
	}
}

func sum(r *run, a args) (any, error) {
	v, err := a.bind("sum", 1, "iterable", "attribute", "start")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	get, err := r.getter(or(v[1], nil), nil)
	if err != nil {
		return nil, err
	}
	total := or(v[2], int64(0))
	if _, ok := text(total); ok {
		return nil, errors.New("sum() can't sum strings [use ''.join(seq) instead]")
	}
	for _, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		if total, err = r.binary("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// mapFilter applies a filter to every item, or reads an attribute of each.
func mapFilter(r *run, a args) (any, error) {
	items, err := r.iterate(a.values[0])
	if err != nil {
		return nil, err
	}
	apply, err := r.mapper(a)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	for i, item := range items {
		if out[i], err = apply(item); err != nil {
			return nil, err
		}
	}
	return &generator{"sync_do_map", out}, r.chargeItems(len(out))
}

func (r *run) mapper(a args) (func(any) (any, error), error) {
	if len(a.values) == 1 && len(a.named) > 0 {
		v, err := a.bind("map", 1, "value", "attribute", "default")
		if err != nil {
			return nil, err
		}
		return r.getter(or(v[1], nil), or(v[2], nil))
	}
	if len(a.values) < 2 {
		return nil, errors.New("map requires a filter argument")
	}
	name, _ := text(a.values[1])
	f, ok := r.lib.filters[name]
	if !ok {
		return nil, fmt.Errorf("no filter named '%s'", name)
	}
	return func(item any) (any, error) {
		return f(r, args{append([]any{item}, a.values[2:]...), a.named})
	}, nil
}

// selecting is select, reject and their kind: they keep the items that a test wants, or
// of which an attribute is so.
func selecting(name string, want, byAttribute bool) builtin {
	return func(r *run, a args) (any, error) {
		items, err := r.iterate(a.values[0])
		if err != nil {
			return nil, err
		}
		rest := a.values[1:]
		get, err := r.getter(nil, nil)
		if byAttribute {
			if len(rest) == 0 {
				return nil, errors.New("missing parameter for attribute name")
			}
			get, err = r.getter(rest[0], nil)
			rest = rest[1:]
		}
		if err != nil {
			return nil, err
		}
		test, err := r.tester(rest, a.named)
		if err != nil {
			return nil, err
		}
		kept, err := keep(items, func(item any) (bool, error) {
			v, err := get(item)
			if err != nil {
				return false, err
			}
			ok, err := test(v)
			return truth(ok) == want, err
		})
		if err != nil {
			return nil, err
		}
		return &generator{"select_or_reject", kept}, r.chargeItems(len(kept))
	}
}

// tester returns the test with its arguments; without one it is whether an item is true.
func (r *run) tester(values []any, named []namedArg) (func(any) (any, error), error) {
	if len(values) == 0 {
		return func(v any) (any, error) { return v, nil }, nil
	}
	name, _ := text(values[0])
	t, ok := r.lib.tests[name]
	if !ok {
		return nil, fmt.Errorf("no test named '%s'", name)
	}
	return func(v any) (any, error) {
		return t(r, args{append([]any{v}, values[1:]...), named})
	}, nil
}

// groupby sorts items by an attribute and puts those with the same one together.
func groupby(r *run, a args) (any, error) {
	v, err := a.bind("groupby", 2, "value", "attribute", "default", "case_sensitive")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	get, err := r.getter(v[1], or(v[2], nil))
	if err != nil {
		return nil, err
	}
	caseMatters := truth(or(v[3], false))
	keys := make([]any, len(items))
	for i, item := range items {
		key, err := get(item)
		if err != nil {
			return nil, err
		}
		keys[i] = sortKey(key, caseMatters)
	}
	if items, err = r.sorted(items, keys, false); err != nil {
		return nil, err
	}
	return r.groups(items, get, caseMatters)
}

// groups makes (key, items) tuples of sorted items.
func (r *run) groups(items []any, get func(any) (any, error), caseMatters bool) (any, error) {
	out := []any{}
	var group []any
	var key any
	for i, item := range items {
		k, err := get(item)
		if err != nil {
			return nil, err
		}
		same, err := r.equal(sortKey(k, caseMatters), sortKey(key, caseMatters))
		if err != nil {
			return nil, err
		}
		if i > 0 && !same {
			out = append(out, Tuple{key, group})
		}
		if i == 0 || !same {
			group, key = nil, k
		}
		group = append(group, item)
	}
	if len(items) > 0 {
		out = append(out, Tuple{key, group})
	}
	return r.madeItems(out)
}

// batch cuts a sequence into lists of n items.
func batch(r *run, a args) (any, error) {
	v, err := a.bind("batch", 2, "value", "linecount", "fill_with")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg("batch", v[1], 0)
	if err != nil || n < 1 {
		return nil, cmp.Or(err, errors.New("batch wants a number of items above 0"))
	}
	out := []any{}
	for len(items) > 0 {
		k := min(int(min(n, maxBytes)), len(items))
		part := slices.Clone(items[:k])
		if fill := or(v[2], nil); fill != nil {
			if err := r.chargeItems(int(min(n, maxBytes))); err != nil {
				return nil, err
			}
			part = append(part, slices.Repeat([]any{fill}, int(n)-k)...)
		}
		out, items = append(out, part), items[k:]
	}
	return &generator{"do_batch", out}, nil
}

// sliceFilter cuts a sequence into n lists of nearly the same length.
func sliceFilter(r *run, a args) (any, error) {
	v, err := a.bind("slice", 2, "value", "slices", "fill_with")
	if err != nil {
		return nil, err
	}
	items, err := r.iterate(v[0])
	if err != nil {
		return nil, err
	}
	n, err := intArg("slice", v[1], 0)
	if err != nil || n < 1 || n > maxRange {
		return nil, cmp.Or(err, errors.New("slice wants a number of lists from 1 to "+strconv.Itoa(maxRange)))
	}
	each, extra := len(items)/int(n), len(items)%int(n)
	out := make([]any, n)
	for i := range out {
		k := each
		if i < extra {
			k++
		}
		part := slices.Clone(items[:k])
		if fill := or(v[2], nil); fill != nil && i >= extra && extra > 0 {
			part = append(part, fill)
		}
		out[i], items = part, items[k:]
	}
	return &generator{"sync_do_slice", out}, r.chargeItems(len(out))
}

func items(r *run, a args) (any, error) {
	v, err := a.bind("items", 1, "value")
	if err != nil {
		return nil, err
	}
	switch d := v[0].(type) {
	case *undefined:
		return &generator{"do_items", nil}, nil
	case *Dict:
		pairs, err := r.pairs(d)
		return &generator{"do_items", pairs}, err
	}
	return nil, errors.New("can only get item pairs from a mapping")
}

func dictsort(r *run, a args) (any, error) {
	v, err := a.bind("dictsort", 1, "value", "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := v[0].(*Dict)
	if !ok {
		return nil, fmt.Errorf("dictsort wants a mapping, not %s", TypeName(v[0]))
	}
	by, _ := text(or(v[2], "key"))
	at := slices.Index([]string{"key", "value"}, by)
	if at < 0 {
		return nil, errors.New("dictsort: you can only sort by either 'key' or 'value'")
	}
	pairs, err := r.pairs(d)
	if err != nil {
		return nil, err
	}
	keys := make([]any, len(pairs))
	for i, pair := range pairs {
		keys[i] = sortKey(pair.(Tuple)[at], truth(or(v[1], false)))
	}
	sorted, err := r.sorted(pairs, keys, truth(or(v[3], false)))
	return sorted, err
}
