package jinja

import "strings"

// expr is a node that has a value. What goes wrong is a failure (see errors.go) at the
// place of the innermost node that is being evaluated.
type expr interface {
	eval(r *run, s *scope) any
	offset() int
}

// node is where in the source a node comes from.
type node struct{ pos int }

func (n node) offset() int { return n.pos }

// eval evaluates a node within the limits.
func (r *run) eval(e expr, s *scope) any {
	outer := r.pos
	r.pos = e.offset()
	r.enter()
	v := e.eval(r, s)
	r.leave()
	r.pos = outer
	return v
}

func (r *run) evalAll(list []expr, s *scope) []any {
	values := make([]any, len(list))
	for i, e := range list {
		values[i] = r.eval(e, s)
	}
	return values
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
		test, then, orElse expr // orElse may be nil
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

// arguments are those of a call, as written.
type arguments struct {
	positional []expr
	named      []param
	list, dict expr // *list and **dict, or nil
}

// param is a name with a value: a parameter of a macro with its default, or an argument
// given by name.
type param struct {
	name  string
	value expr
}

func (e *constExpr) eval(*run, *scope) any { return e.value }

func (e *nameExpr) eval(_ *run, s *scope) any { return s.get(e.name) }

func (e *listExpr) eval(r *run, s *scope) any {
	values := r.evalAll(e.items, s)
	if e.tuple {
		return r.made(Tuple(values))
	}
	return r.made(values)
}

func (e *dictExpr) eval(r *run, s *scope) any {
	d := new(Dict)
	for i := range e.keys {
		key := r.eval(e.keys[i], s)
		d.insert(key, r.eval(e.values[i], s))
	}
	return r.made(d)
}

func (e *attrExpr) eval(r *run, s *scope) any { return r.attribute(r.eval(e.object, s), e.name) }

func (e *itemExpr) eval(r *run, s *scope) any {
	object := r.eval(e.object, s)
	return r.item(object, r.eval(e.key, s))
}

func (e *sliceExpr) eval(r *run, s *scope) any {
	var v sliceValue
	for i, bound := range e.bounds {
		if bound != nil {
			v[i] = r.eval(bound, s)
		}
	}
	return &v
}

func (e *callExpr) eval(r *run, s *scope) any { return e.call(r, s) }

// call calls the function with the arguments of the node, then with extra named ones.
func (e *callExpr) call(r *run, s *scope, extra ...namedArg) any {
	f := r.eval(e.function, s)
	given, named := e.args.eval(r, s)
	return r.call(f, given, append(named, extra...))
}

// eval evaluates the arguments and puts first before them.
func (a arguments) eval(r *run, s *scope, first ...any) (given []any, named []namedArg) {
	given = append(first, r.evalAll(a.positional, s)...)
	for _, p := range a.named {
		named = append(named, namedArg{p.name, r.eval(p.value, s)})
	}
	if a.list != nil {
		given = append(given, r.iterate(r.eval(a.list, s))...)
	}
	if a.dict == nil {
		return given, named
	}
	v := r.eval(a.dict, s)
	d, ok := v.(*Dict)
	if !ok {
		panic(failed("argument after ** must be a mapping, not %s", TypeName(v)))
	}
	for key, value := range d.All() {
		word, ok := text(key)
		if !ok {
			panic(failed("keywords must be strings"))
		}
		named = append(named, namedArg{word, value})
	}
	return given, named
}

func (e *filterExpr) eval(r *run, s *scope) any { return e.apply(r, s, r.eval(e.operand, s)) }

// apply runs the filter on v.
func (e *filterExpr) apply(r *run, s *scope, v any) any {
	f, ok := r.lib.filters[e.name]
	if !ok {
		panic(unknown("filter", e.name))
	}
	given, named := e.args.eval(r, s, v)
	return r.made(f.apply(r, e.name, given, named))
}

func (e *testExpr) eval(r *run, s *scope) any {
	v := r.eval(e.operand, s)
	t, ok := r.lib.tests[e.name]
	if !ok {
		panic(unknown("test", e.name))
	}
	given, named := e.args.eval(r, s, v)
	return t.apply(r, "the test "+e.name, given, named)
}

func (e *condExpr) eval(r *run, s *scope) any {
	switch {
	case truth(r.eval(e.test, s)):
		return r.eval(e.then, s)
	case e.orElse == nil:
		return &undefined{"the inline if-expression was false and has no else"}
	}
	return r.eval(e.orElse, s)
}

func (e *logicExpr) eval(r *run, s *scope) any {
	if left := r.eval(e.left, s); truth(left) == e.or {
		return left
	}
	return r.eval(e.right, s)
}

func (e *notExpr) eval(r *run, s *scope) any { return !truth(r.eval(e.operand, s)) }

func (e *signExpr) eval(r *run, s *scope) any { return signed(r.eval(e.operand, s), e.negative) }

func (e *binaryExpr) eval(r *run, s *scope) any {
	left := r.eval(e.left, s)
	return r.made(r.binary(e.op, left, r.eval(e.right, s)))
}

// eval joins what the parts print. Unlike +, it takes anything, and like Jinja without
// autoescape it lets markup be text.
func (e *concatExpr) eval(r *run, s *scope) any {
	var b strings.Builder
	for _, part := range e.parts {
		piece := r.str(r.eval(part, s))
		r.charge(len(piece))
		b.WriteString(piece)
	}
	return b.String()
}

// eval compares as Python does: a < b < c is a < b and b < c, with b evaluated once.
func (e *compareExpr) eval(r *run, s *scope) any {
	left := r.eval(e.first, s)
	for _, c := range e.rest {
		right := r.eval(c.operand, s)
		if !r.compare(c.op, left, right) {
			return false
		}
		left = right
	}
	return true
}
