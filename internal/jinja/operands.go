package jinja

import "strings"

// constants are the names that are values; nothing can be assigned to them.
var constants = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

// primary parses a name, a literal, or what stands in brackets.
func (p *parser) primary() expr {
	t := p.next()
	switch {
	case t.kind == name:
		return p.name(t)
	case t.kind == literal:
		return constant(t.pos, p.literal(t.value))
	case t.is("("):
		return p.parenthesis(t)
	case t.is("["):
		var items []expr
		p.list("]", func() { items = append(items, p.expression()) })
		return expr{pos: t.pos, eval: func(r *run, s *scope) any { return r.made(r.evalAll(items, s)) }}
	case t.is("{"):
		return p.dict(t)
	}
	panic(p.fail(t, "expected an expression, have %v", t))
}

// literal returns what a literal stands for. Strings next to each other are one, as in Python.
func (p *parser) literal(v any) any {
	s, isText := v.(string)
	if !isText {
		return v
	}
	var b strings.Builder
	for isText {
		b.WriteString(s)
		if s, isText = p.peek().value.(string); isText {
			p.next()
		}
	}
	return b.String()
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
			if p.skip(closing) { // a comma may stand after the last
				return
			}
		}
		one()
	}
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
	if i, ok := t.value.(int64); ok { // a.0 is a[0]
		return itemExpr(pos, object, constant(t.pos, i))
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

// filtersAndTests parses what may follow an operand: | filter and is test.
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
		default:
			return e
		}
	}
}

// filter is a filter or test with its arguments, to be applied to a value.
type filter struct {
	pos   int
	apply func(r *run, s *scope, v any) any
}

// applied is the filter or test of a name. One that nobody has fails only where it is reached,
// as in Jinja: a template may hold it in a branch for others.
func applied(kind string, t token, a arguments) filter {
	return filter{t.pos, func(r *run, s *scope, v any) any {
		given, named := a.eval(r, s, v)
		return r.made(r.use(kind, t.text, given, named))
	}}
}

// filter parses a filter's name and arguments.
func (p *parser) filter() filter {
	t := p.expectKind(name)
	var a arguments
	if p.peek().is("(") {
		a = p.arguments()
	}
	return applied("filter", t, a)
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
	case next.is("is"):
		panic(p.fail(next, "tests cannot be chained with is"))
	case next.kind == name && next.text != "else" && next.text != "or" && next.text != "and",
		next.kind == literal, next.is("["), next.is("{"):
		a.positional = []expr{p.postfix(p.primary())}
	}
	f := applied("test", t, a)
	e := expr{pos: t.pos, eval: func(r *run, s *scope) any { return f.apply(r, s, r.eval(operand, s)) }}
	if not {
		return negated(t.pos, e)
	}
	return e
}
