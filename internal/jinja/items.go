package jinja

import "fmt"

// iterate returns the items of v: those of a list, the keys of a dict (not its values), the
// characters of a string. What is undefined has none, but None is an error, as it is in Python: a
// message with "tool_calls": null fails in {% for c in message.tool_calls %} unless asked about.
func (r *run) iterate(v any) []any {
	items := []any{}
	if s, ok := v.(string); ok {
		r.charge(2 * itemSize * len(s))
		for _, c := range s {
			items = append(items, string(c))
		}
		return items
	}
	switch v := v.(type) {
	case []any:
		items = v
	case Tuple:
		items = v
	case *Dict:
		items = r.keys(v)
	case *view:
		items = v.items
		if v.once {
			v.items = nil
		}
	case *undefined:
	default:
		panic(failed("'%s' object is not iterable", TypeName(v)))
	}
	r.step(len(items))
	return items
}

// keys, values and pairs return the parts of a dict, in the order of its keys.
func (r *run) keys(d *Dict) []any   { return r.parts(d, func(e entry) any { return e.key }) }
func (r *run) values(d *Dict) []any { return r.parts(d, func(e entry) any { return e.value }) }
func (r *run) pairs(d *Dict) []any {
	return r.parts(d, func(e entry) any { return Tuple{e.key, e.value} })
}

func (r *run) parts(d *Dict, of func(entry) any) []any {
	r.charge(3 * itemSize * d.Len())
	items := make([]any, 0, d.Len())
	for key, value := range d.All() {
		items = append(items, of(entry{key, value}))
	}
	return items
}

// item is object[key]. As in Jinja, a key that is not there falls back to an attribute of
// that name.
func (r *run) item(object, key any) any {
	mustExist(object)
	if bounds, ok := key.(*sliceValue); ok {
		return r.slice(object, bounds)
	}
	if d, ok := object.(*Dict); ok {
		switch key.(type) {
		case []any, Tuple, *Dict: // can be no key, and are no attribute either
		default:
			if v, ok := d.lookup(key); ok {
				return v
			}
		}
	} else if i, ok := integer(key); ok {
		if v, ok := r.index(object, i); ok {
			return v
		}
	}
	if name, ok := key.(string); ok {
		if v, ok := r.attributeOf(object, name); ok {
			return v
		}
		return missingAttribute(object, name)
	}
	return &undefined{fmt.Sprintf("'%s object' has no element %s", TypeName(object), r.repr(key))}
}

// index is object[i], where a negative i counts from the end; ok is false where there is no such
// item. Beyond the end Jinja has undefined, where Python has an error: messages[0] of no messages
// prints as nothing.
func (r *run) index(object any, i int64) (v any, ok bool) {
	items, isList := indexable(object)
	n := len(items)
	var chars []rune
	if s, isText := object.(string); isText {
		r.step(len(s) / 16)
		chars = []rune(s)
		n, isList = len(chars), true
	}
	if i < 0 {
		i += int64(n)
	}
	switch {
	case !isList || i < 0 || i >= int64(n):
		return nil, false
	case chars != nil:
		return string(chars[i]), true
	}
	return items[i], true
}

// sliceValue is start:stop:step; nil where there is none.
type sliceValue [3]any

// slice is object[start:stop:step]: of a string characters, else items.
func (r *run) slice(object any, bounds *sliceValue) any {
	if s, ok := object.(string); ok {
		r.charge(4 * len(s))
		return string(sliced([]rune(s), bounds))
	}
	items, ok := indexable(object)
	if !ok {
		panic(failed("'%s' object has no slices", TypeName(object)))
	}
	r.charge(itemSize * len(items))
	if _, ok := object.(Tuple); ok {
		return Tuple(sliced(items, bounds))
	}
	return sliced(items, bounds)
}

// sliced returns the items from start up to stop, each step one. As in Python a bound that
// lies outside is no error, and with a negative step the slice runs backwards from the end:
// templates write messages[::-1] to find the last question.
func sliced[T any](from []T, b *sliceValue) []T {
	n := int64(len(from))
	step := bound(b[2], 1)
	if step == 0 {
		panic(failed("slice step cannot be zero"))
	}
	lowest, highest, first, last := int64(0), n, int64(0), n
	if step < 0 {
		lowest, highest, first, last = -1, n-1, n-1, -1
	}
	clamped := func(v any, instead int64) int64 {
		i := bound(v, instead)
		if i < 0 && v != nil {
			i += n // a negative one counts from the end
		}
		return max(lowest, min(i, highest))
	}
	start, stop := clamped(b[0], first), clamped(b[1], last)
	// A step beyond the length takes one item, whatever it is; it could overflow i.
	step = max(min(step, n+1), -n-1)
	out := []T{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, from[i])
	}
	return out
}

// bound is what was written for a bound, which must be an integer.
func bound(v any, instead int64) int64 {
	if v == nil {
		return instead
	}
	i, ok := integer(v)
	if !ok {
		panic(failed("slice indices must be integers or None"))
	}
	return i
}
