package jinja

import (
	"fmt"
	"slices"
)

// maxParseDepth bounds how deeply expressions and blocks may be nested in a template.
const maxParseDepth = 200

// parser makes nodes of tokens. It stops at the first mistake, with a failure.
type parser struct {
	source
	tokens      []token
	i           int
	depth       int
	loops       int // how many loops a break would find around it
	callers     int // how often the name caller is read so far
	generations bool
}

func parse(src source, tokens []token) *Template {
	p := &parser{source: src, tokens: tokens}
	body := p.body("")
	return &Template{source: src, body: body, generations: p.generations}
}

// fail makes the failure to panic with.
func (p *parser) fail(t token, format string, a ...any) failure {
	return failure{p.at(fmt.Errorf(format, a...), t.pos)}
}

// nest counts one more level of nesting; the caller defers p.unnest.
func (p *parser) nest() {
	if p.depth++; p.depth > maxParseDepth {
		panic(p.fail(p.peek(), "nested too deeply"))
	}
}

func (p *parser) unnest() { p.depth-- }

func (p *parser) peek() token { return p.tokens[p.i] }

func (p *parser) peekAt(n int) token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

// next returns the current token and moves on; it stays at the end of the template.
func (p *parser) next() token {
	t := p.peek()
	p.i = min(p.i+1, len(p.tokens)-1)
	return t
}

// skip moves over the word or operator s, and tells whether it was there.
func (p *parser) skip(s string) bool {
	if p.peek().is(s) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(s string) token {
	if !p.peek().is(s) {
		panic(p.fail(p.peek(), "expected '%s', have %v", s, p.peek()))
	}
	return p.next()
}

func (p *parser) expectKind(k kind) token {
	if p.peek().kind != k {
		panic(p.fail(p.peek(), "expected %v, have %v", k, p.peek()))
	}
	return p.next()
}

// body parses statements up to a block that begins with one of the words end, and leaves
// the parser at that word. The end "" is the end of the template.
func (p *parser) body(opener string, end ...string) []stmt {
	p.nest()
	defer p.unnest()
	start := p.peek()
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case eof:
			if len(end) > 0 {
				panic(p.fail(start, "the block %s has no %s", opener, end[len(end)-1]))
			}
			return body
		case data:
			body = append(body, &textStmt{t.text})
		case varBegin:
			body = append(body, &printStmt{p.tuple()})
			p.expectKind(varEnd)
		case blockBegin:
			if word := p.peek(); word.kind == name && slices.Contains(end, word.text) {
				return body
			}
			body = append(body, p.statement(end))
			p.expectKind(blockEnd)
		}
	}
}

// block parses the rest of a tag's block: the end of the opening tag, the body, and the
// end word.
func (p *parser) block(opener string, end ...string) []stmt {
	p.skip(":")
	p.expectKind(blockEnd)
	return p.body(opener, end...)
}

// function parses a block that becomes a function: the loops around it end there.
func (p *parser) function(opener, end string) []stmt {
	loops := p.loops
	p.loops = 0
	body := p.block(opener, end)
	p.loops = loops
	p.next()
	return body
}

func (p *parser) statement(end []string) stmt {
	t := p.expectKind(name)
	switch t.text {
	case "for":
		return p.forStmt()
	case "if":
		return p.ifStmt()
	case "set":
		return p.setStmt()
	case "macro":
		return p.macroStmt()
	case "call":
		return p.callStmt()
	case "filter":
		return p.filterStmt()
	case "generation":
		p.generations = true
		return &generationStmt{p.function("generation", "endgeneration")}
	case "break", "continue":
		return p.loopControl(t)
	}
	if message := leftOut("the tag", t.text); message != "" {
		panic(p.fail(t, "%s", message))
	}
	if len(end) > 0 {
		panic(p.fail(t, "unknown tag '%s'; here %v could end the block", t.text, end))
	}
	panic(p.fail(t, "unknown tag '%s'", t.text))
}

func (p *parser) loopControl(t token) stmt {
	if p.loops == 0 {
		panic(p.fail(t, "'%s' outside a loop", t.text))
	}
	if t.text == "break" {
		return controlStmt{breaking}
	}
	return controlStmt{continuing}
}

func (p *parser) forStmt() stmt {
	f := &forStmt{target: p.target("in")}
	p.expect("in")
	f.iter = p.tupleOf(p.or, "recursive", "if")
	if p.skip("if") {
		f.test = p.expression()
	}
	if t := p.peek(); t.is("recursive") {
		panic(p.fail(t, "%s", notRendered("the word", t.text)))
	}
	p.loops++
	f.body = p.block("for", "else", "endfor")
	p.loops--
	if p.next().text == "else" {
		f.orElse = p.block("for", "endfor")
		p.next()
	}
	return f
}

func (p *parser) ifStmt() stmt {
	s := new(ifStmt)
	for {
		test := p.tupleOf(p.or)
		s.branches = append(s.branches, branch{test, p.block("if", "elif", "else", "endif")})
		switch p.next().text {
		case "elif":
			continue
		case "else":
			s.orElse = p.block("if", "endif")
			p.next()
		}
		return s
	}
}

func (p *parser) setStmt() stmt {
	target := p.target("=")
	if p.skip("=") {
		return &setStmt{target, p.tuple()}
	}
	s := &setBlock{target: target, filters: p.filters()}
	s.body = p.block("set", "endset")
	p.next()
	return s
}

func (p *parser) macroStmt() stmt {
	t := p.expectKind(name)
	params := p.signature()
	return &macroStmt{p.macroDef(t.text, params, "macro", "endmacro")}
}

// signature parses the parameters of a macro or a call block.
func (p *parser) signature() []param {
	var params []param
	p.expect("(")
	for !p.peek().is(")") {
		if len(params) > 0 {
			p.expect(",")
		}
		t := p.expectKind(name)
		q := param{name: t.text}
		if p.skip("=") {
			q.value = p.expression()
		} else if len(params) > 0 && params[len(params)-1].value != nil {
			panic(p.fail(t, "the parameter %s has no default, but the one before it has", t.text))
		}
		params = append(params, q)
	}
	p.next()
	return params
}

func (p *parser) callStmt() stmt {
	var params []param
	if p.peek().is("(") {
		params = p.signature()
	}
	t := p.peek()
	call, ok := p.expression().(*callExpr)
	if !ok {
		panic(p.fail(t, "the tag call wants a call of a macro"))
	}
	return &callStmt{call, p.macroDef("caller", params, "call", "endcall")}
}

// macroDef parses the body of a macro.
func (p *parser) macroDef(name string, params []param, opener, end string) macroDef {
	before := p.callers
	body := p.function(opener, end)
	return macroDef{name, params, body, p.callers > before}
}

func (p *parser) filterStmt() stmt {
	s := &filterStmt{filters: append([]*filterExpr{p.filter(nil)}, p.filters()...)}
	s.body = p.block("filter", "endfilter")
	p.next()
	return s
}

// filters parses the | filter | filter ... of a block, which has no operand of its own.
func (p *parser) filters() []*filterExpr {
	var list []*filterExpr
	for p.skip("|") {
		list = append(list, p.filter(nil))
	}
	return list
}

// reserved are the names that are values, which nothing can be assigned to.
var reserved = []string{"true", "false", "none", "True", "False", "None"}

// target parses what is assigned to: a name, ns.name, or a tuple of these, up to stop.
func (p *parser) target(stop string) target {
	var parts tupleTarget
	for {
		parts = append(parts, p.oneTarget(stop))
		if !p.skip(",") {
			break
		}
		if p.peek().is(stop) {
			return parts
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts
}

func (p *parser) oneTarget(stop string) target {
	if p.skip("(") {
		p.nest()
		defer p.unnest()
		inner := p.target(")")
		p.expect(")")
		return inner
	}
	t := p.expectKind(name)
	if slices.Contains(reserved, t.text) {
		panic(p.fail(t, "can't assign to '%s'", t.text))
	}
	if stop != "in" && p.skip(".") {
		return namespaceTarget{t.text, p.expectKind(name).text}
	}
	return nameTarget(t.text)
}
