package jinja

import (
	"cmp"
	"strings"
)

// compare is left op right for the operators of comparison. == and != take values of any types,
// which then differ; < and its kind fail for a number and a string, as in Python 3.
func (r *run) compare(op string, left, right any) bool {
	switch op {
	case "==", "!=":
		return r.equal(left, right) == (op == "==")
	case "in", "not in":
		return r.contains(right, left) == (op == "in")
	}
	order, ok := r.order(left, right)
	if !ok {
		panic(failed("'%s' not supported between instances of '%s' and '%s'", op, TypeName(left), TypeName(right)))
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// equal is Python's ==: 1, 1.0 and True are the same, [1] and (1,) are not, and dicts are
// the same whatever the order of their keys. Values can hold one list in many places, so
// that even going through them counts as steps.
func (r *run) equal(a, b any) bool {
	r.enter()
	defer r.leave()
	if x, ok := number(a); ok {
		y, ok := number(b)
		m, aInt := integer(a)
		n, bInt := integer(b)
		if aInt && bInt { // not as floats: those of 2**53 and its successor are the same
			return m == n
		}
		return ok && x == y
	}
	if s, ok := text(a); ok {
		t, ok := text(b)
		r.step(len(s) / 64)
		return ok && s == t
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && r.equalItems(a, b)
	case Tuple:
		b, ok := b.(Tuple)
		return ok && r.equalItems(a, b)
	case *Dict:
		b, ok := b.(*Dict)
		return ok && r.equalDicts(a, b)
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	}
	switch b.(type) {
	case []any, Tuple: // these have no == in Go
		return false
	}
	return a == b
}

func (r *run) equalItems(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !r.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func (r *run) equalDicts(a, b *Dict) bool {
	if a.Len() != b.Len() {
		return false
	}
	for key, v := range a.All() {
		if w, ok := b.lookup(key); !ok || !r.equal(v, w) {
			return false
		}
	}
	return true
}

// order compares numbers, or strings. For others, such as a number and a string, ok is false;
// Python also has an order of lists.
func (r *run) order(a, b any) (order int, ok bool) {
	mustExist(a)
	mustExist(b)
	if m, ok := integer(a); ok {
		if n, ok := integer(b); ok {
			return cmp.Compare(m, n), true
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return cmp.Compare(x, y), ok
	}
	if s, ok := a.(string); ok {
		t, ok := b.(string)
		r.step(len(s) / 64)
		return cmp.Compare(s, t), ok
	}
	return 0, false
}

// contains is item in collection: a piece of a string, a key of a dict, or an item of what
// else can be gone through. Nothing is in what is undefined: templates ask for a word in a
// message's content without asking first whether there is any.
func (r *run) contains(collection, item any) bool {
	if s, ok := collection.(string); ok {
		t, ok := item.(string)
		if !ok {
			panic(failed("'in <string>' requires string as left operand, not %s", TypeName(item)))
		}
		r.step(len(s) / 64)
		return strings.Contains(s, t)
	}
	if d, ok := collection.(*Dict); ok {
		_, has := d.lookup(item)
		return has
	}
	for _, v := range r.iterate(collection) {
		if r.equal(v, item) {
			return true
		}
	}
	return false
}
