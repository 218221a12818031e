package jinja

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// iterate returns the items of v: those of a list, the keys of a dict, the characters of
// a string. What is undefined has none.
func (r *run) iterate(v any) ([]any, error) {
	if s, ok := text(v); ok {
		return r.characters(s)
	}
	switch v := v.(type) {
	case []any:
		return v, r.step(len(v))
	case Tuple:
		return v, r.step(len(v))
	case *Dict:
		return r.keys(v)
	case *undefined:
		return nil, nil
	case rangeValue:
		return v.items(), r.chargeItems(int(v.length))
	case *dictView:
		return v.items, r.step(len(v.items))
	case *generator:
		return v.take(), nil
	}
	return nil, fmt.Errorf("'%s' object is not iterable", TypeName(v))
}

func (r *run) characters(s string) ([]any, error) {
	if err := r.chargeItems(len(s)); err != nil {
		return nil, err
	}
	items := make([]any, 0, len(s))
	for _, c := range s {
		items = append(items, string(c))
	}
	return items, nil
}

func (r *run) keys(d *Dict) ([]any, error) {
	items := make([]any, 0, d.Len())
	for key := range d.All() {
		items = append(items, key)
	}
	return items, r.chargeItems(len(items))
}

// pairs returns the (key, value) tuples of a dict.
func (r *run) pairs(d *Dict) ([]any, error) {
	items := make([]any, 0, d.Len())
	for key, value := range d.All() {
		items = append(items, Tuple{key, value})
	}
	return items, r.chargeItems(3 * len(items))
}

// length is Python's len.
func length(v any) (int64, error) {
	if s, ok := text(v); ok {
		return int64(utf8.RuneCountInString(s)), nil
	}
	if items, ok := sequence(v); ok {
		return int64(len(items)), nil
	}
	switch v := v.(type) {
	case *Dict:
		return int64(v.Len()), nil
	case *dictView:
		return int64(len(v.items)), nil
	case rangeValue:
		return v.length, nil
	case *loop:
		return int64(len(v.items)), nil
	case *undefined:
		return 0, nil
	}
	return 0, fmt.Errorf("object of type '%s' has no len()", TypeName(v))
}

// item is object[key]. As in Jinja, a key that is not there falls back to an attribute of
// that name.
func (r *run) item(object, key any) (any, error) {
	if u, ok := object.(*undefined); ok {
		return nil, u.err()
	}
	if bounds, ok := key.(*sliceValue); ok {
		return r.slice(object, bounds)
	}
	switch o := object.(type) {
	case *Dict:
		v, ok, err := o.lookup(key)
		if err == nil && ok {
			return v, nil
		}
	default:
		if i, ok := integer(key); ok {
			if v, ok, err := r.index(object, i); ok || err != nil {
				return v, err
			}
		}
	}
	if name, ok := text(key); ok {
		if v, ok := r.attributeOf(object, name); ok {
			return v, nil
		}
		return missingAttribute(object, name), nil
	}
	repr, err := r.repr(key)
	if err != nil {
		return nil, err
	}
	return &undefined{fmt.Sprintf("%s has no element %s", objectName(object), repr)}, nil
}

// index is object[i], where a negative i counts from the end; ok is false where there is
// no such item.
func (r *run) index(object any, i int64) (v any, ok bool, err error) {
	if s, isText := text(object); isText {
		c, ok, err := r.character(s, i)
		return keepMarkup(object, c), ok, err
	}
	if rng, isRange := object.(rangeValue); isRange {
		if i < 0 {
			i += rng.length
		}
		return rng.start + i*rng.step, i >= 0 && i < rng.length, nil
	}
	items, isList := sequence(object)
	if i < 0 {
		i += int64(len(items))
	}
	if !isList || i < 0 || i >= int64(len(items)) {
		return nil, false, nil
	}
	return items[i], true, nil
}

func (r *run) character(s string, i int64) (string, bool, error) {
	if err := r.step(len(s) / 16); err != nil {
		return "", false, err
	}
	if i < 0 {
		i += int64(utf8.RuneCountInString(s))
	}
	for at, c := range s {
		if i == 0 {
			return s[at : at+utf8.RuneLen(c)], true, nil
		}
		i--
	}
	return "", false, nil
}

// sliceValue is start:stop:step; nil where there is none.
type sliceValue [3]any

// slice is object[start:stop:step].
func (r *run) slice(object any, bounds *sliceValue) (any, error) {
	switch object.(type) {
	case string, markup, []any, Tuple, rangeValue:
	default:
		return nil, fmt.Errorf("'%s' object has no slices", TypeName(object))
	}
	n, err := length(object)
	if err != nil {
		return nil, err
	}
	indices, err := bounds.indices(n)
	if err != nil {
		return nil, err
	}
	if s, ok := text(object); ok {
		if err := r.charge(4 * len(s)); err != nil {
			return nil, err
		}
		chars := []rune(s)
		out := make([]rune, 0, len(indices))
		for _, i := range indices {
			out = append(out, chars[i])
		}
		return keepMarkup(object, string(out)), nil
	}
	items, err := r.iterate(object)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(indices))
	for k, i := range indices {
		out[k] = items[i]
	}
	if err := r.chargeItems(len(out)); err != nil {
		return nil, err
	}
	if _, ok := object.(Tuple); ok {
		return Tuple(out), nil
	}
	return out, nil
}

// indices are those that the slice takes from a sequence of length n.
func (b *sliceValue) indices(n int64) ([]int64, error) {
	step, err := bound(b[2], 1)
	if err != nil {
		return nil, err
	}
	if step == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	lowest, highest, first, last := int64(0), n, int64(0), n
	if step < 0 {
		lowest, highest, first, last = -1, n-1, n-1, -1
	}
	start, err := clamped(b[0], first, n, lowest, highest)
	if err != nil {
		return nil, err
	}
	stop, err := clamped(b[1], last, n, lowest, highest)
	if err != nil {
		return nil, err
	}
	var out []int64
	// The step is at most n, so that i cannot overflow.
	step = max(min(step, n+1), -n-1)
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, i)
	}
	return out, nil
}

// clamped is a bound of a slice: counted from the end if negative, and within the sequence.
func clamped(v any, instead, n, lowest, highest int64) (int64, error) {
	if v == nil {
		return instead, nil
	}
	i, err := bound(v, 0)
	if i < 0 {
		i += n
	}
	return max(lowest, min(i, highest)), err
}

func bound(v any, instead int64) (int64, error) {
	if v == nil {
		return instead, nil
	}
	i, ok := integer(v)
	if !ok {
		return 0, errors.New("slice indices must be integers or None")
	}
	return i, nil
}
