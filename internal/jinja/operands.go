package jinja

import (
	"strconv"
	"strings"
)

// constants are the names that are values; nothing can be assigned to them.
var constants = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

// primary parses a name, a literal, or what stands in brackets. Strings next to each other
// are one, as in Python.
func (p *parser) primary() expr {
	t := p.next()
	switch {
	case t.kind == name:
		return p.name(t)
	case t.kind == str:
		var b strings.Builder
		b.WriteString(t.text)
		for p.peek().kind == str {
			b.WriteString(p.next().text)
		}
		return constant(t.pos, b.String())
	case t.kind == integerLit:
		return constant(t.pos, integerOf(t))
	case t.kind == floatLit:
		f, _ := strconv.ParseFloat(t.text, 64) // 1e999 is inf, as in Python
		return constant(t.pos, f)
	case t.is("("):
		return p.parenthesis(t)
	case t.is("["):
		items := p.items("]")
		return expr{pos: t.pos, eval: func(r *run, s *scope) any { return r.made(r.evalAll(items, s)) }}
	case t.is("{"):
		return p.dict(t)
	}
	panic(p.fail(t, "expected an expression, have %v", t))
}

// name parses a variable or a constant. Whoever reads caller can be called by a call block.
func (p *parser) name(t token) expr {
	if v, ok := constants[t.text]; ok {
		return constant(t.pos, v)
	}
	if t.text == "caller" {
		p.callers++
	}
	return expr{pos: t.pos, eval: func(_ *run, s *scope) any { return s.get(t.text) }}
}

// integerOf reads digits. An integer beyond int64 can at least be printed.
func integerOf(t token) any {
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil {
		return jsonInt(t.text)
	}
	return n
}

// parenthesis parses (), an expression in parentheses, or a tuple.
func (p *parser) parenthesis(t token) expr {
	p.nest()
	defer p.unnest()
	if p.skip(")") {
		return tupleExpr(t.pos, nil)
	}
	e := p.tuple()
	p.expect(")")
	return e
}

// list parses what one parses, again and again with commas between, up to a closing
// bracket.
func (p *parser) list(closing string, one func()) {
	for first := true; !p.skip(closing); first = false {
		if !first {
			p.expect(",")
			if p.skip(closing) {
				return
			}
		}
		one()
	}
}

func (p *parser) items(closing string) []expr {
	var items []expr
	p.list(closing, func() { items = append(items, p.expression()) })
	return items
}

// dict parses {key: value, ...}. The dict keeps its keys in the order they are written.
func (p *parser) dict(t token) expr {
	var keys, values []expr
	p.list("}", func() {
		keys = append(keys, p.expression())
		p.expect(":")
		values = append(values, p.expression())
	})
	return expr{pos: t.pos, eval: func(r *run, s *scope) any {
		d := new(Dict)
		for i := range keys {
			key := r.eval(keys[i], s)
			d.insert(key, r.eval(values[i], s))
		}
		return r.made(d)
	}}
}

// postfix parses the subscripts and calls after an operand.
func (p *parser) postfix(e expr) expr {
	for {
		switch t := p.peek(); {
		case t.is("."):
			p.next()
			e = p.attribute(e, t.pos)
		case t.is("["):
			p.next()
			key := p.slice()
			p.expect("]")
			e = itemExpr(t.pos, e, key)
		case t.is("("):
			e = p.callOf(e)
		default:
			return e
		}
	}
}

// attribute parses what stands after a dot. a.b is the method or attribute b of a, else
// the item a['b']; for a['b'] it is the other way round.
func (p *parser) attribute(object expr, pos int) expr {
	t := p.next()
	if t.kind == integerLit { // a.0 is a[0]
		return itemExpr(pos, object, constant(t.pos, integerOf(t)))
	}
	if t.kind != name {
		panic(p.fail(t, "expected a name or number after the dot, have %v", t))
	}
	return expr{pos: pos, eval: func(r *run, s *scope) any { return r.attribute(r.eval(object, s), t.text) }}
}

func itemExpr(pos int, object, key expr) expr {
	return expr{pos: pos, eval: func(r *run, s *scope) any {
		o := r.eval(object, s)
		return r.item(o, r.eval(key, s))
	}}
}

// slice parses what is between the brackets of a subscript: an index or start:stop:step.
func (p *parser) slice() expr {
	pos := p.peek().pos
	var bounds [3]expr
	if !p.skip(":") {
		e := p.expression()
		if !p.skip(":") {
			return e
		}
		bounds[0] = e
	}
	for i := 1; i < 3; i++ {
		if t := p.peek(); !t.is(":") && !t.is("]") {
			bounds[i] = p.expression()
		}
		if !p.skip(":") {
			break
		}
	}
	return expr{pos: pos, eval: func(r *run, s *scope) any {
		var v sliceValue
		for i, bound := range bounds {
			if bound.eval != nil {
				v[i] = r.eval(bound, s)
			}
		}
		return &v
	}}
}

// filtersAndTests parses what may follow an operand: | filter, is test, and calls.
func (p *parser) filtersAndTests(e expr) expr {
	for {
		switch t := p.peek(); {
		case t.is("|"):
			p.next()
			f, operand := p.filter(), e
			e = expr{pos: f.pos, eval: func(r *run, s *scope) any { return f.apply(r, s, r.eval(operand, s)) }}
		case t.is("is"):
			p.next()
			e = p.test(e)
		case t.is("("):
			e = p.callOf(e)
		default:
			return e
		}
	}
}

// filter is a filter with its arguments, to be applied to a value.
type filter struct {
	pos   int
	apply func(r *run, s *scope, v any) any
}

// filter parses a filter's name and arguments. A name that nobody has fails only where the
// filter is reached, as in Jinja: a template may hold it in a branch for others.
func (p *parser) filter() filter {
	t := p.expectKind(name)
	var a arguments
	if p.peek().is("(") {
		a = p.arguments()
	}
	return filter{t.pos, func(r *run, s *scope, v any) any {
		f, ok := r.lib.filters[t.text]
		if !ok {
			panic(unknown("filter", t.text))
		}
		given, named := a.eval(r, s, v)
		return r.made(f.apply(r, t.text, given, named))
	}}
}

// filters parses the | filter | filter ... of a block.
func (p *parser) filters() []filter {
	var list []filter
	for p.skip("|") {
		list = append(list, p.filter())
	}
	return list
}

// test parses what stands after is: a name, perhaps after not, and its arguments. One
// argument may stand without parentheses, as in x is divisibleby 3.
func (p *parser) test(operand expr) expr {
	not := p.skip("not")
	t := p.expectKind(name)
	var a arguments
	switch next := p.peek(); {
	case next.is("("):
		a = p.arguments()
	case beginsArgument(next):
		if next.is("is") {
			panic(p.fail(next, "tests cannot be chained with is"))
		}
		a.positional = []expr{p.postfix(p.primary())}
	}
	e := expr{pos: t.pos, eval: func(r *run, s *scope) any {
		v := r.eval(operand, s)
		f, ok := r.lib.tests[t.text]
		if !ok {
			panic(unknown("test", t.text))
		}
		given, named := a.eval(r, s, v)
		return f.apply(r, "the test "+t.text, given, named)
	}}
	if not {
		return negated(t.pos, e)
	}
	return e
}

// beginsArgument tells whether t begins the argument of a test without parentheses.
func beginsArgument(t token) bool {
	switch t.kind {
	case name:
		return t.text != "else" && t.text != "or" && t.text != "and"
	case str, integerLit, floatLit:
		return true
	}
	return t.is("[") || t.is("{")
}
