package jinja

import (
	"fmt"
	"strings"
)

// expr is a node that has a value.
type expr interface {
	eval(r *run, s *scope) (any, error)
	offset() int
}

// node is where in the source a node comes from.
type node struct{ pos int }

func (n node) offset() int { return n.pos }

// eval evaluates a node within the limits, and places its error.
func (r *run) eval(e expr, s *scope) (any, error) {
	if err := r.enter(); err != nil {
		return nil, r.at(err, e.offset())
	}
	v, err := e.eval(r, s)
	r.leave()
	return v, r.at(err, e.offset())
}

func (r *run) evalAll(list []expr, s *scope) ([]any, error) {
	values := make([]any, len(list))
	for i, e := range list {
		var err error
		if values[i], err = r.eval(e, s); err != nil {
			return nil, err
		}
	}
	return values, nil
}

type (
	constExpr struct {
		node
		value any
	}
	nameExpr struct {
		node
		name string
	}
	listExpr struct {
		node
		items []expr
		tuple bool
	}
	dictExpr struct {
		node
		keys, values []expr
	}
	attrExpr struct {
		node
		object expr
		name   string
	}
	itemExpr struct {
		node
		object, key expr
	}
	sliceExpr struct {
		node
		bounds [3]expr // start, stop, step; nil where there is none
	}
	callExpr struct {
		node
		function expr
		args     arguments
	}
	filterExpr struct {
		node
		operand expr
		name    string
		args    arguments
	}
	testExpr struct {
		node
		operand expr
		name    string
		args    arguments
	}
	condExpr struct {
		node
		test, then, orElse expr
	}
	logicExpr struct {
		node
		or          bool
		left, right expr
	}
	notExpr struct {
		node
		operand expr
	}
	signExpr struct {
		node
		negative bool
		operand  expr
	}
	binaryExpr struct {
		node
		op          string
		left, right expr
	}
	concatExpr struct {
		node
		parts []expr
	}
	compareExpr struct {
		node
		first expr
		rest  []comparison
	}
	comparison struct {
		op      string
		operand expr
	}
)

func (e *constExpr) eval(*run, *scope) (any, error) { return e.value, nil }

func (e *nameExpr) eval(_ *run, s *scope) (any, error) { return s.get(e.name), nil }

func (e *listExpr) eval(r *run, s *scope) (any, error) {
	if err := r.chargeItems(len(e.items)); err != nil {
		return nil, err
	}
	values, err := r.evalAll(e.items, s)
	if e.tuple {
		return Tuple(values), err
	}
	return values, err
}

func (e *dictExpr) eval(r *run, s *scope) (any, error) {
	d := new(Dict)
	for i := range e.keys {
		key, err := r.eval(e.keys[i], s)
		if err != nil {
			return nil, err
		}
		value, err := r.eval(e.values[i], s)
		if err != nil {
			return nil, err
		}
		if err := d.insert(key, value); err != nil {
			return nil, err
		}
	}
	return d, r.chargeItems(4 * len(e.keys))
}

func (e *attrExpr) eval(r *run, s *scope) (any, error) {
	object, err := r.eval(e.object, s)
	if err != nil {
		return nil, err
	}
	return r.attribute(object, e.name)
}

func (e *itemExpr) eval(r *run, s *scope) (any, error) {
	object, err := r.eval(e.object, s)
	if err != nil {
		return nil, err
	}
	key, err := r.eval(e.key, s)
	if err != nil {
		return nil, err
	}
	return r.item(object, key)
}

func (e *sliceExpr) eval(r *run, s *scope) (any, error) {
	var v sliceValue
	for i, bound := range e.bounds {
		if bound == nil {
			continue
		}
		var err error
		if v[i], err = r.eval(bound, s); err != nil {
			return nil, err
		}
	}
	return &v, nil
}

func (e *callExpr) eval(r *run, s *scope) (any, error) {
	return e.call(r, s)
}

// call calls the function with the arguments of the node, then with extra named ones.
func (e *callExpr) call(r *run, s *scope, extra ...namedArg) (any, error) {
	f, err := r.eval(e.function, s)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	a.named = append(a.named, extra...)
	return r.call(f, a)
}

func (r *run) call(f any, a args) (any, error) {
	switch f := f.(type) {
	case callable:
		return f.call(r, a)
	case *undefined:
		return nil, f.err()
	}
	return nil, fmt.Errorf("'%s' object is not callable", TypeName(f))
}

func (e *filterExpr) eval(r *run, s *scope) (any, error) {
	v, err := r.eval(e.operand, s)
	if err != nil {
		return nil, err
	}
	return e.apply(r, s, v)
}

// apply runs the filter on v.
func (e *filterExpr) apply(r *run, s *scope, v any) (any, error) {
	f, ok := r.lib.filters[e.name]
	if !ok {
		return nil, fmt.Errorf("no filter named '%s'", e.name)
	}
	a, err := e.args.eval(r, s, v)
	if err != nil {
		return nil, err
	}
	return f(r, a)
}

func (e *testExpr) eval(r *run, s *scope) (any, error) {
	v, err := r.eval(e.operand, s)
	if err != nil {
		return nil, err
	}
	t, ok := r.lib.tests[e.name]
	if !ok {
		return nil, fmt.Errorf("no test named '%s'", e.name)
	}
	a, err := e.args.eval(r, s, v)
	if err != nil {
		return nil, err
	}
	return t(r, a)
}

func (e *condExpr) eval(r *run, s *scope) (any, error) {
	test, err := r.eval(e.test, s)
	switch {
	case err != nil:
		return nil, err
	case truth(test):
		return r.eval(e.then, s)
	case e.orElse == nil:
		return &undefined{"the inline if-expression was false and has no else"}, nil
	}
	return r.eval(e.orElse, s)
}

func (e *logicExpr) eval(r *run, s *scope) (any, error) {
	left, err := r.eval(e.left, s)
	if err != nil || truth(left) == e.or {
		return left, err
	}
	return r.eval(e.right, s)
}

func (e *notExpr) eval(r *run, s *scope) (any, error) {
	v, err := r.eval(e.operand, s)
	return !truth(v), err
}

func (e *signExpr) eval(r *run, s *scope) (any, error) {
	v, err := r.eval(e.operand, s)
	if err != nil {
		return nil, err
	}
	return sign(v, e.negative)
}

func (e *binaryExpr) eval(r *run, s *scope) (any, error) {
	left, err := r.eval(e.left, s)
	if err != nil {
		return nil, err
	}
	right, err := r.eval(e.right, s)
	if err != nil {
		return nil, err
	}
	return r.binary(e.op, left, right)
}

func (e *concatExpr) eval(r *run, s *scope) (any, error) {
	var b strings.Builder
	for _, part := range e.parts {
		v, err := r.eval(part, s)
		if err != nil {
			return nil, err
		}
		text, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if err := r.charge(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// eval compares as Python does: a < b < c is a < b and b < c, with b evaluated once.
func (e *compareExpr) eval(r *run, s *scope) (any, error) {
	left, err := r.eval(e.first, s)
	if err != nil {
		return nil, err
	}
	for _, c := range e.rest {
		right, err := r.eval(c.operand, s)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(c.op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}
