package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

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
