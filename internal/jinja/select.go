package jinja

import (
	"errors"
	"fmt"
)

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
