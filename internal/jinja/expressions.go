package jinja

import (
	"strings"
)

// expr is an expression of a template: where it stands, and what evaluates it. What goes
// wrong is a failure (see errors.go) at the place of the innermost expression that is
// being evaluated.
type expr struct {
	pos  int
	eval func(r *run, s *scope) any

	// call is there if the expression is a call: it does the call with more arguments.
	call func(r *run, s *scope, extra ...namedArg) any
}

// eval evaluates an expression within the limits.
func (r *run) eval(e expr, s *scope) any {
	outer := r.pos
	r.pos = e.pos
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

func constant(pos int, v any) expr {
	return expr{pos: pos, eval: func(*run, *scope) any { return v }}
}

// The methods of this file are Jinja's grammar of expressions, each calling the next
// tighter one: if-else, or, and, not, comparisons, + -, ~, * / // %, signs; then come the
// primaries of operands.go.

// expression parses a if b else c, or what is tighter. Without else the value is undefined,
// which prints as nothing: {{ ',' if not loop.last }}.
func (p *parser) expression() expr {
	p.nest()
	defer p.unnest()
	e := p.or()
	for p.peek().is("if") {
		pos, then := p.next().pos, e
		test := p.or()
		orElse := constant(pos, &undefined{"the inline if-expression was false and has no else"})
		if p.skip("else") {
			orElse = p.expression()
		}
		e = expr{pos: pos, eval: func(r *run, s *scope) any {
			if truth(r.eval(test, s)) {
				return r.eval(then, s)
			}
			return r.eval(orElse, s)
		}}
	}
	return e
}

// tuple parses an expression, or several with commas between them.
func (p *parser) tuple() expr {
	start := p.peek().pos
	items := []expr{p.expression()}
	several := false
	for p.skip(",") {
		several = true
		if t := p.peek(); t.is(")") || t.kind == blockEnd {
			break // (1,) is a tuple of one
		}
		items = append(items, p.expression())
	}
	if !several {
		return items[0]
	}
	return tupleExpr(start, items)
}

func tupleExpr(pos int, items []expr) expr {
	return expr{pos: pos, eval: func(r *run, s *scope) any { return r.made(Tuple(r.evalAll(items, s))) }}
}

func (p *parser) or() expr  { return p.logic("or", true, p.and) }
func (p *parser) and() expr { return p.logic("and", false, p.not) }

// logic parses a chain of or, which stops at the first operand that is true, or of and,
// which stops at the first that is not. As in Python the value is that operand's.
func (p *parser) logic(word string, stop bool, operand func() expr) expr {
	e := operand()
	for p.peek().is(word) {
		pos, left := p.next().pos, e
		right := operand()
		e = expr{pos: pos, eval: func(r *run, s *scope) any {
			if v := r.eval(left, s); truth(v) == stop {
				return v
			}
			return r.eval(right, s)
		}}
	}
	return e
}

// not parses not x. It is looser than a comparison, and that than a filter: not a in b is
// not (a in b), and not x|length > 1 is not ((x|length) > 1).
func (p *parser) not() expr {
	if !p.peek().is("not") {
		return p.comparison()
	}
	p.nest()
	defer p.unnest()
	pos := p.next().pos
	return negated(pos, p.not())
}

func negated(pos int, e expr) expr {
	return expr{pos: pos, eval: func(r *run, s *scope) any { return !truth(r.eval(e, s)) }}
}

// comparison parses a chain such as a < b < c, which as in Python is a < b and b < c with b
// evaluated once. So 1 == 1.0 == true holds, as all three are equal.
func (p *parser) comparison() expr {
	pos, first := p.peek().pos, p.sum()
	var ops []string
	var operands []expr
	for op := p.comparator(); op != ""; op = p.comparator() {
		ops, operands = append(ops, op), append(operands, p.sum())
	}
	if len(ops) == 0 {
		return first
	}
	return expr{pos: pos, eval: func(r *run, s *scope) any {
		left := r.eval(first, s)
		for i, op := range ops {
			right := r.eval(operands[i], s)
			if !r.compare(op, left, right) {
				return false
			}
			left = right
		}
		return true
	}}
}

// comparator moves over an operator of comparison and returns it, or nothing.
func (p *parser) comparator() string {
	if t := p.operator("==", "!=", "<", "<=", ">", ">="); t.text != "" {
		return t.text
	}
	if p.skip("in") {
		return "in"
	}
	if p.peek().is("not") && p.peekAt(1).is("in") {
		p.next()
		p.next()
		return "not in"
	}
	return ""
}

// binary parses a chain of operators of one rank, which join from the left.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	e := operand()
	for op := p.operator(ops...); op.text != ""; op = p.operator(ops...) {
		left, right := e, operand()
		e = expr{pos: op.pos, eval: func(r *run, s *scope) any {
			a := r.eval(left, s)
			return r.made(r.binary(op.text, a, r.eval(right, s)))
		}}
	}
	return e
}

// sum parses + and -. Unlike in Python ~ is tighter than these, as Jinja has it.
func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

// concat parses a ~ b ~ c, which joins what the parts print: unlike +, it takes anything.
func (p *parser) concat() expr {
	pos, parts := p.peek().pos, []expr{p.product()}
	for p.skip("~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return expr{pos: pos, eval: func(r *run, s *scope) any {
		var b strings.Builder
		for _, part := range parts {
			piece := r.str(r.eval(part, s))
			r.charge(len(piece))
			b.WriteString(piece)
		}
		return b.String()
	}}
}

// product parses * / // %. The power of Jinja would stand between these and the signs.
func (p *parser) product() expr {
	return p.binary(func() expr {
		e := p.unary(true)
		if t := p.peek(); t.is("**") {
			panic(p.fail(t, "%s", notRendered("the operator", t.text)))
		}
		return e
	}, "*", "/", "//", "%")
}

// unary parses a signed or plain operand: a sign binds tighter than a filter, so that
// -n|abs is (-n)|abs.
func (p *parser) unary(withFilters bool) expr {
	var e expr
	if sign := p.operator("-", "+"); sign.text != "" {
		p.nest()
		defer p.unnest()
		operand := p.unary(false)
		e = expr{pos: sign.pos, eval: func(r *run, s *scope) any {
			return signed(r.eval(operand, s), sign.text == "-")
		}}
	} else {
		e = p.primary()
	}
	e = p.postfix(e)
	if withFilters {
		e = p.filtersAndTests(e)
	}
	return e
}
