package jinja

import (
	"cmp"
	"fmt"
	"strings"
)

// compare is left op right for the operators of comparison.
func (r *run) compare(op string, left, right any) (bool, error) {
	switch op {
	case "==":
		return r.equal(left, right)
	case "!=":
		same, err := r.equal(left, right)
		return !same, err
	case "in":
		return r.contains(right, left)
	case "not in":
		has, err := r.contains(right, left)
		return !has, err
	}
	order, ok, err := r.order(left, right)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, fmt.Errorf("'%s' not supported between instances of '%s' and '%s'", op, TypeName(left), TypeName(right))
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

// equal is Python's ==.
func (r *run) equal(a, b any) (bool, error) {
	if err := r.enter(); err != nil {
		return false, err
	}
	defer r.leave()
	if x, ok := number(a); ok {
		y, ok := number(b)
		m, aInt := integer(a)
		n, bInt := integer(b)
		if aInt && bInt {
			return m == n, nil
		}
		return ok && x == y, nil
	}
	if s, ok := text(a); ok {
		t, ok := text(b)
		return ok && s == t, r.step(len(s) / 64)
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return r.equalItems(a, b, ok)
	case Tuple:
		b, ok := b.(Tuple)
		return r.equalItems(a, b, ok)
	case *Dict:
		b, ok := b.(*Dict)
		return r.equalDicts(a, b, ok)
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	}
	switch b.(type) {
	case []any, Tuple: // these have no == in Go
		return false, nil
	}
	return a == b, nil
}

func (r *run) equalItems(a, b []any, sameType bool) (bool, error) {
	if !sameType || len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := r.equal(a[i], b[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *Dict, sameType bool) (bool, error) {
	if !sameType || a.Len() != b.Len() {
		return false, nil
	}
	for key, v := range a.All() {
		w, ok, err := b.lookup(key)
		if err != nil || !ok {
			return false, err
		}
		if same, err := r.equal(v, w); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// order compares values that Python can put in order: numbers, strings, lists and tuples.
func (r *run) order(a, b any) (order int, ok bool, err error) {
	if err := r.enter(); err != nil {
		return 0, false, err
	}
	defer r.leave()
	for _, v := range []any{a, b} {
		if u, isUndefined := v.(*undefined); isUndefined {
			return 0, false, u.err()
		}
	}
	if m, ok := integer(a); ok {
		if n, ok := integer(b); ok {
			return cmp.Compare(m, n), true, nil
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return cmp.Compare(x, y), ok, nil
	}
	if s, ok := text(a); ok {
		t, ok := text(b)
		return cmp.Compare(s, t), ok, r.step(len(s) / 64)
	}
	_, aTuple := a.(Tuple)
	_, bTuple := b.(Tuple)
	x, ok := sequence(a)
	y, ok2 := sequence(b)
	if !ok || !ok2 || aTuple != bTuple {
		return 0, false, nil
	}
	for i := range min(len(x), len(y)) {
		if same, err := r.equal(x[i], y[i]); err != nil {
			return 0, false, err
		} else if !same {
			return r.order(x[i], y[i])
		}
	}
	return cmp.Compare(len(x), len(y)), true, nil
}

// contains is item in collection.
func (r *run) contains(collection, item any) (bool, error) {
	if s, ok := text(collection); ok {
		t, ok := text(item)
		if !ok {
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", TypeName(item))
		}
		return strings.Contains(s, t), r.step(len(s) / 64)
	}
	if d, ok := collection.(*Dict); ok {
		_, has, err := d.lookup(item)
		return has, err
	}
	items, err := r.iterate(collection)
	if err != nil {
		return false, err
	}
	for _, v := range items {
		if same, err := r.equal(v, item); err != nil || same {
			return same, err
		}
	}
	return false, nil
}
