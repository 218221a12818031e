package jinja

import (
	"strings"
)

// getter returns a function that reads the attribute of an item: name, name.name, or a
// number; nil is the item itself. What is undefined becomes instead, unless that is nil. An
// attribute is looked for as an item first, so that of a dict it is the key and not a method.
func (r *run) getter(attribute, instead any) func(item any) any {
	var path []any
	switch attribute := attribute.(type) {
	case nil:
	case int64:
		path = []any{attribute}
	default:
		s, ok := attribute.(string)
		if !ok {
			panic(failed("an attribute must be a name or a number, not %s", TypeName(attribute)))
		}
		for part := range strings.SplitSeq(s, ".") {
			path = append(path, part)
		}
	}
	return func(item any) any {
		for _, key := range path {
			item = r.item(item, key)
			if isUndefined(item) && instead != nil {
				item = instead
			}
		}
		return item
	}
}

// joinFilter joins what the items print, or what an attribute of each does. Unlike the
// method join it takes items of any type.
func joinFilter(r *run, a args) any {
	get := r.getter(a.or(2, nil), nil)
	items := r.iterate(a.values[0])
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = r.str(get(item))
	}
	return r.join(parts, r.str(a.or(1, "")))
}

// unique keeps the first of items that are the same, text also in other letters.
func unique(r *run, a args) any {
	get := r.getter(a.or(2, nil), nil)
	seen, kept := map[any]bool{}, []any{}
	for _, item := range r.iterate(a.values[0]) {
		h := hashKey(sortKey(get(item), a.flag(1)))
		if !seen[h] {
			kept = append(kept, item)
		}
		seen[h] = true
	}
	return generator(kept)
}

// itemsOf returns the items of what is true: nothing else has any for map, select and their kind, be it None or 0.
func (r *run) itemsOf(v any) []any {
	if !truth(v) {
		return nil
	}
	return r.iterate(v)
}

// mapFilter applies a filter to every item, or reads an attribute of each: map('upper') has the
// name of a filter and then its arguments, map(attribute='name') that of an attribute.
func mapFilter(r *run, a args) any {
	var apply func(item any) any
	switch {
	case len(a.values) > 1:
		name, _ := a.values[1].(string)
		apply = func(item any) any {
			return r.use("filter", name, append([]any{item}, a.values[2:]...), a.named)
		}
	case len(a.named) > 0:
		v := params{"attribute", "default?"}.bind("map", nil, a.named)
		apply = r.getter(v[0], args{values: v}.or(1, nil))
	default:
		panic(failed("map requires the name of a filter, or attribute="))
	}
	items := r.itemsOf(a.values[0])
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = r.made(apply(item))
	}
	return generator(out)
}

// selecting is select, reject and their kind: they keep the items that a test wants, or of
// which an attribute is so. Without a test it is whether an item is true.
func selecting(want, byAttribute bool) func(*run, args) any {
	return func(r *run, a args) any {
		rest := a.values[1:]
		get := r.getter(nil, nil)
		if byAttribute {
			if len(rest) == 0 {
				panic(failed("%s requires the name of an attribute", a.name))
			}
			get, rest = r.getter(rest[0], nil), rest[1:]
		}
		kept := []any{}
		for _, item := range r.itemsOf(a.values[0]) {
			v := get(item)
			if len(rest) > 0 {
				name, _ := rest[0].(string)
				v = r.use("test", name, append([]any{v}, rest[1:]...), a.named)
			}
			if truth(v) == want {
				kept = append(kept, item)
			}
		}
		return generator(kept)
	}
}
