package jinja

import (
	"fmt"
	"slices"
)

// maxParseDepth bounds how deeply expressions and blocks may be nested in a template.
const maxParseDepth = 200

// parser makes functions of tokens: of an expression one that evaluates it, of a statement
// one that runs it (see expr and stmt). What a piece of a template means thus stands where
// it is read. The parser stops at the first mistake, with a failure.
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

// nest counts one more level of nesting; the caller defers p.unnest. Without a bound a
// million brackets would use up the stack, which no Go program survives.
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

// operator moves over one of the given operators and returns it, or a token without text.
func (p *parser) operator(ops ...string) token {
	if t := p.peek(); t.kind == operator && slices.Contains(ops, t.text) {
		return p.next()
	}
	return token{}
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
// the parser at that word. Without such words it ends with the template.
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
			body = append(body, func(r *run, _ *scope) signal {
				r.write(t.text)
				return onward
			})
		case varBegin:
			body = append(body, printed(p.expression()))
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

// block parses the rest of a tag's block: the end of the opening tag and the body. With
// one word to end it, it moves over that word.
func (p *parser) block(opener string, end ...string) []stmt {
	p.skip(":")
	p.expectKind(blockEnd)
	body := p.body(opener, end...)
	if len(end) == 1 {
		p.next()
	}
	return body
}

// function parses a block that becomes a function: the loops around it end there.
func (p *parser) function(opener, end string) []stmt {
	loops := p.loops
	p.loops = 0
	body := p.block(opener, end)
	p.loops = loops
	return body
}

// statement parses the tag after {%. The words end are those that could have ended the
// block that it stands in: a template that has forgotten one shows it here.
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
		return p.generationStmt()
	case "break", "continue":
		if p.loops == 0 {
			panic(p.fail(t, "'%s' outside a loop", t.text))
		}
		end := map[string]signal{"break": breaking, "continue": continuing}[t.text]
		return func(*run, *scope) signal { return end }
	}
	if message := leftOut("the tag", t.text); message != "" {
		panic(p.fail(t, "%s", message))
	}
	if len(end) > 0 {
		panic(p.fail(t, "unknown tag '%s'; here %v could end the block", t.text, end))
	}
	panic(p.fail(t, "unknown tag '%s'", t.text))
}
