package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// The methods of this file are Jinja's grammar of expressions, each calling the next
// tighter one: if-else, or, and, not, comparisons, + -, ~, * / // %, signs, and then
// primaries with their subscripts, calls, filters and tests.

func (p *parser) expression() expr {
	p.nest()
	defer p.unnest()
	e := p.or()
	for p.peek().is("if") {
		t := p.next()
		c := &condExpr{node: node{t.pos}, then: e, test: p.or()}
		if p.skip("else") {
			c.orElse = p.expression()
		}
		e = c
	}
	return e
}

// tuple parses an expression, or several with commas between them.
func (p *parser) tuple() expr { return p.tupleOf(p.expression) }

// tupleOf parses a tuple of what item parses, up to the end of the tag or one of the
// words end.
func (p *parser) tupleOf(item func() expr, end ...string) expr {
	t := p.peek()
	var items []expr
	for {
		if k := p.peek().kind; k == varEnd || k == blockEnd || p.peek().is(")") ||
			p.peek().kind == name && slices.Contains(end, p.peek().text) {
			break
		}
		items = append(items, item())
		if !p.peek().is(",") {
			if len(items) == 1 {
				return items[0]
			}
			break
		}
		p.next()
	}
	if len(items) == 0 {
		panic(p.fail(t, "expected an expression, have %v", t))
	}
	return &listExpr{node{t.pos}, items, true}
}

func (p *parser) or() expr {
	e := p.and()
	for p.peek().is("or") {
		t := p.next()
		e = &logicExpr{node{t.pos}, true, e, p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.peek().is("and") {
		t := p.next()
		e = &logicExpr{node{t.pos}, false, e, p.not()}
	}
	return e
}

func (p *parser) not() expr {
	if p.peek().is("not") {
		p.nest()
		defer p.unnest()
		t := p.next()
		return &notExpr{node{t.pos}, p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expr {
	c := &compareExpr{node: node{p.peek().pos}, first: p.sum()}
	for {
		op := p.peek().text
		switch t := p.peek(); {
		case t.kind == operator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op), t.is("in"):
			p.next()
		case t.is("not") && p.peekAt(1).is("in"):
			p.next()
			p.next()
			op = "not in"
		default:
			if len(c.rest) == 0 {
				return c.first
			}
			return c
		}
		c.rest = append(c.rest, comparison{op, p.sum()})
	}
}

// binary parses a chain of operators of one rank, which join from the left.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	e := operand()
	for p.peek().kind == operator && slices.Contains(ops, p.peek().text) {
		t := p.next()
		e = &binaryExpr{node{t.pos}, t.text, e, operand()}
	}
	return e
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	t := p.peek()
	parts := []expr{p.product()}
	for p.skip("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &concatExpr{node{t.pos}, parts}
}

func (p *parser) product() expr { return p.binary(p.operand, "*", "/", "//", "%") }

func (p *parser) operand() expr {
	e := p.unary(true)
	if t := p.peek(); t.is("**") {
		panic(p.fail(t, "%s", notRendered("the operator", t.text)))
	}
	return e
}

// unary parses a signed or plain operand: a sign binds tighter than a filter.
func (p *parser) unary(withFilters bool) expr {
	t := p.peek()
	var e expr
	if t.kind == operator && (t.text == "-" || t.text == "+") {
		p.nest()
		defer p.unnest()
		p.next()
		e = &signExpr{node{t.pos}, t.text == "-", p.unary(false)}
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if withFilters {
		e = p.filtersAndTests(e)
	}
	return e
}

func (p *parser) primary() expr {
	t := p.next()
	at := node{t.pos}
	switch {
	case t.kind == name:
		return p.nameOrConstant(t)
	case t.kind == str:
		var b strings.Builder
		b.WriteString(t.text)
		for p.peek().kind == str {
			b.WriteString(p.next().text)
		}
		return &constExpr{at, b.String()}
	case t.kind == integerLit:
		return &constExpr{at, p.integer(t)}
	case t.kind == floatLit:
		f, _ := strconv.ParseFloat(t.text, 64) // 1e999 is inf, as in Python
		return &constExpr{at, f}
	case t.is("("):
		return p.parenthesis(t)
	case t.is("["):
		return &listExpr{at, p.items("]"), false}
	case t.is("{"):
		return p.dict(at)
	}
	panic(p.fail(t, "expected an expression, have %v", t))
}

func (p *parser) nameOrConstant(t token) expr {
	switch t.text {
	case "true", "True":
		return &constExpr{node{t.pos}, true}
	case "false", "False":
		return &constExpr{node{t.pos}, false}
	case "none", "None":
		return &constExpr{node{t.pos}, nil}
	}
	if t.text == "caller" {
		p.callers++
	}
	return &nameExpr{node{t.pos}, t.text}
}

func (p *parser) integer(t token) any {
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil {
		return jsonInt(t.text)
	}
	return n
}

func (p *parser) parenthesis(t token) expr {
	p.nest()
	defer p.unnest()
	if p.skip(")") {
		return &listExpr{node{t.pos}, nil, true}
	}
	e := p.tuple()
	p.expect(")")
	return e
}

// items parses expressions with commas between them up to a closing bracket.
func (p *parser) items(closing string) []expr {
	var items []expr
	for !p.skip(closing) {
		if len(items) > 0 {
			p.expect(",")
			if p.skip(closing) {
				break
			}
		}
		items = append(items, p.expression())
	}
	return items
}

func (p *parser) dict(at node) expr {
	d := &dictExpr{node: at}
	for !p.skip("}") {
		if len(d.keys) > 0 {
			p.expect(",")
			if p.skip("}") {
				break
			}
		}
		d.keys = append(d.keys, p.expression())
		p.expect(":")
		d.values = append(d.values, p.expression())
	}
	return d
}

// postfix parses the subscripts and calls after an operand.
func (p *parser) postfix(e expr) expr {
	for {
		switch t := p.peek(); {
		case t.is("."):
			p.next()
			e = p.attribute(e, node{t.pos})
		case t.is("["):
			p.next()
			e = p.subscript(e, node{t.pos})
		case t.is("("):
			e = &callExpr{node{t.pos}, e, p.arguments()}
		default:
			return e
		}
	}
}

func (p *parser) attribute(e expr, at node) expr {
	switch t := p.next(); t.kind {
	case name:
		return &attrExpr{at, e, t.text}
	case integerLit:
		return &itemExpr{at, e, &constExpr{node{t.pos}, p.integer(t)}}
	default:
		panic(p.fail(t, "expected a name or number after the dot, have %v", t))
	}
}

func (p *parser) subscript(e expr, at node) expr {
	key := p.slice()
	p.expect("]")
	return &itemExpr{at, e, key}
}

// slice parses what is between the brackets of a subscript: an index or start:stop:step.
func (p *parser) slice() expr {
	s := &sliceExpr{node: node{p.peek().pos}}
	if !p.skip(":") {
		e := p.expression()
		if !p.skip(":") {
			return e
		}
		s.bounds[0] = e
	}
	for i := 1; i < 3; i++ {
		if t := p.peek(); !t.is(":") && !t.is("]") {
			s.bounds[i] = p.expression()
		}
		if !p.skip(":") {
			break
		}
	}
	return s
}

// arguments parses the arguments of a call: values, then names with values, *list and
// **dict.
func (p *parser) arguments() arguments {
	p.nest()
	defer p.unnest()
	var a arguments
	open := p.expect("(")
	for first := true; !p.skip(")"); first = false {
		if !first {
			p.expect(",")
			if p.skip(")") {
				break
			}
		}
		p.argument(&a, open)
	}
	return a
}

func (p *parser) argument(a *arguments, open token) {
	valid := true
	switch t := p.peek(); {
	case t.is("*"):
		valid = a.list == nil && a.dict == nil
		p.next()
		a.list = p.expression()
	case t.is("**"):
		valid = a.dict == nil
		p.next()
		a.dict = p.expression()
	case t.kind == name && p.peekAt(1).is("="):
		valid = a.dict == nil
		p.next()
		p.next()
		a.named = append(a.named, param{t.text, p.expression()})
	default:
		valid = a.list == nil && a.dict == nil && len(a.named) == 0
		a.positional = append(a.positional, p.expression())
	}
	if !valid {
		panic(p.fail(open, "the call has its arguments in a wrong order"))
	}
}

// filtersAndTests parses what may follow an operand: | filter, is test, and calls.
func (p *parser) filtersAndTests(e expr) expr {
	for {
		switch t := p.peek(); {
		case t.is("|"):
			p.next()
			e = p.filter(e)
		case t.is("is"):
			p.next()
			e = p.test(e)
		case t.is("("):
			e = &callExpr{node{t.pos}, e, p.arguments()}
		default:
			return e
		}
	}
}

// filter parses one filter's name and arguments. An operand of nil stands for the body of
// a block.
func (p *parser) filter(operand expr) *filterExpr {
	t := p.expectKind(name)
	f := &filterExpr{node: node{t.pos}, operand: operand, name: t.text}
	if p.peek().is("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(operand expr) expr {
	negated := p.skip("not")
	t := p.expectKind(name)
	e := &testExpr{node: node{t.pos}, operand: operand, name: t.text}
	switch next := p.peek(); {
	case next.is("("):
		e.args = p.arguments()
	case p.beginsArgument(next):
		if next.is("is") {
			panic(p.fail(next, "tests cannot be chained with is"))
		}
		e.args.positional = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &notExpr{node{t.pos}, e}
	}
	return e
}

// beginsArgument tells whether t begins the argument of a test without parentheses.
func (p *parser) beginsArgument(t token) bool {
	switch t.kind {
	case name:
		return t.text != "else" && t.text != "or" && t.text != "and"
	case str, integerLit, floatLit:
		return true
	}
	return t.is("[") || t.is("{")
}
