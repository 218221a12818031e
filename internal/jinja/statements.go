package jinja

// stmt runs a statement: it writes, or changes variables.
type stmt func(r *run, s *scope) signal

// signal is how a statement ended: what is left of the loop around it is to be run, or
// skipped.
type signal int

const (
	onward signal = iota
	breaking
	continuing
)

// execAll runs a body to its end, or to the first break or continue in it. It opens no scope: what
// an if sets is there after the if, and only loops, macros and captured blocks forget.
func (r *run) execAll(body []stmt, s *scope) signal {
	for _, st := range body {
		r.enter()
		end := st(r, s)
		r.leave()
		if end != onward {
			return end
		}
	}
	return onward
}

// execText runs a body and returns what it wrote. No signal leaves it: the parser takes
// break and continue only within a loop of the same body.
func (r *run) execText(body []stmt, s *scope) string {
	return r.capture(func() { r.execAll(body, s) })
}

// value evaluates an expression of a statement, and stays at its place: what the statement
// then does with the value fails there.
func (r *run) value(e expr, s *scope) any {
	v := r.eval(e, s)
	r.pos = e.pos
	return v
}

// printed is {{ e }}. Nothing is escaped, since transformers renders without autoescape.
func printed(e expr) stmt {
	return func(r *run, s *scope) signal {
		r.write(r.str(r.value(e, s)))
		return onward
	}
}

// ifStmt parses from the test on. An elif is an if in the else of the one before.
func (p *parser) ifStmt() stmt {
	test := p.or()
	then := p.block("if", "elif", "else", "endif")
	var orElse []stmt
	switch p.next().text {
	case "elif":
		p.nest()
		defer p.unnest()
		orElse = []stmt{p.ifStmt()}
	case "else":
		orElse = p.block("if", "endif")
	}
	return func(r *run, s *scope) signal {
		if truth(r.value(test, s)) {
			return r.execAll(then, s)
		}
		return r.execAll(orElse, s)
	}
}

// setStmt parses both kinds of set: of a value, and of what a block writes. A set in a loop does
// not reach the next turn of it. That surprises who knows Python, and is why templates write
// {% set ns = namespace(found=false) %} before a loop and {% set ns.found = true %} in it.
func (p *parser) setStmt() stmt {
	target := p.target("=")
	if p.skip("=") {
		e := p.tuple()
		return func(r *run, s *scope) signal {
			target(r, s, r.value(e, s))
			return onward
		}
	}
	filters := p.filters()
	body := p.function("set", "endset")
	return func(r *run, s *scope) signal {
		target(r, s, r.filtered(filters, body, s))
		return onward
	}
}

// filterStmt parses a filter block, whose filters get what it writes.
func (p *parser) filterStmt() stmt {
	filters := append([]filter{p.filter()}, p.filters()...)
	body := p.function("filter", "endfilter")
	return func(r *run, s *scope) signal {
		r.write(r.str(r.filtered(filters, body, s)))
		return onward
	}
}

// filtered runs a body, and filters on what it wrote.
func (r *run) filtered(filters []filter, body []stmt, s *scope) any {
	var v any = r.execText(body, s.inner())
	for _, f := range filters {
		r.pos = f.pos
		v = f.apply(r, s, v)
	}
	return v
}

// generationStmt is the tag that transformers adds to Jinja: around what the assistant says, for
// trainers to know which tokens to learn. It writes its body as if it were not there, and
// notes where in the output that is. In a captured output
// the place is not known yet: there the text may still be changed, or written twice.
func (p *parser) generationStmt() stmt {
	p.generations = true
	body := p.function("generation", "endgeneration")
	return func(r *run, s *scope) signal {
		start := r.out.Len()
		r.execAll(body, s.inner())
		if r.captures > 0 {
			r.hidden = true
		} else {
			r.generations = append(r.generations, Range{start, r.out.Len()})
		}
		return onward
	}
}

// target assigns a value to what stands before = or after for.
type target func(r *run, s *scope, v any)

// target parses what is assigned to: a name, ns.name, or a tuple of these, up to stop.
func (p *parser) target(stop string) target {
	parts := []target{p.oneTarget(stop)}
	for p.skip(",") {
		parts = append(parts, p.oneTarget(stop))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return unpacked(parts)
}

// unpacked assigns the items of a value to as many targets: for key, value in d|items.
func unpacked(parts []target) target {
	return func(r *run, s *scope, v any) {
		items := r.iterate(v)
		if len(items) != len(parts) {
			panic(failed("cannot unpack %d values into %d names", len(items), len(parts)))
		}
		for i, assign := range parts {
			assign(r, s, items[i])
		}
	}
}

// oneTarget parses one. Only the attributes of a namespace can be set: all other values are
// the caller's, or shared.
func (p *parser) oneTarget(stop string) target {
	if p.skip("(") {
		p.nest()
		defer p.unnest()
		inner := p.target(")")
		p.expect(")")
		return inner
	}
	t := p.expectKind(name)
	if _, reserved := constants[t.text]; reserved {
		panic(p.fail(t, "can't assign to '%s'", t.text))
	}
	if stop == "in" || !p.skip(".") {
		return func(_ *run, s *scope, v any) { s.set(t.text, v) }
	}
	attribute := p.expectKind(name).text
	return func(_ *run, s *scope, v any) {
		ns, ok := s.get(t.text).(*namespace)
		if !ok {
			panic(failed("cannot assign to '%s.%s': it is not a namespace; write {%% set %s = namespace() %%} before",
				t.text, attribute, t.text))
		}
		ns.values.Set(attribute, v)
	}
}
