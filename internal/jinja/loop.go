package jinja

// forStmt is a loop: over what, for which items, what it does, and what it does instead.
type forStmt struct {
	target target
	over   expr
	test   expr // only items for which it is true; without eval, all
	body   []stmt
	orElse []stmt
}

// forStmt parses a loop. As in Jinja its else is for a loop that has had no items, not, as
// in Python, for one without break.
func (p *parser) forStmt() stmt {
	f := &forStmt{target: p.target("in")}
	p.expect("in")
	f.over = p.or()
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
	}
	return f.exec
}

// exec runs the body for each item, each time in a scope of its own: what it sets is gone
// with it. The items are all there before the first turn, as loop.last and loop.nextitem need to
// look ahead.
func (f *forStmt) exec(r *run, s *scope) signal {
	items := r.iterate(r.value(f.over, s))
	if f.test.eval != nil {
		items = f.selected(r, s, items)
	}
	l := &loop{items: items}
	reachedEnd := false
	for l.index = range items {
		r.step(1)
		inner := s.inner()
		inner.set("loop", l)
		f.target(r, inner, items[l.index])
		end := r.execAll(f.body, inner)
		if end == breaking {
			break
		}
		reachedEnd = reachedEnd || end == onward
	}
	// More exactly, what decides is not whether there were items but whether the body
	// reached its end for one of them.
	if !reachedEnd {
		return r.execAll(f.orElse, s.inner())
	}
	return onward
}

// selected returns the items that pass the test of the loop. They are found before the
// body runs, so that loop.length and loop.last count only them.
func (f *forStmt) selected(r *run, s *scope, items []any) []any {
	kept := []any{}
	for _, item := range items {
		inner := s.inner()
		f.target(r, inner, item)
		if truth(r.value(f.test, inner)) {
			kept = append(kept, item)
		}
	}
	r.made(kept)
	return kept
}

// loop is the variable loop. That of an inner loop hides that of the outer one; a template that
// needs both saves the outer one before: {% set outer = loop %}.
type loop struct {
	items []any
	index int
}

// attribute returns an attribute of the loop, and whether there is one of that name.
func (l *loop) attribute(name string) (any, bool) {
	i, n := int64(l.index), int64(len(l.items))
	switch name {
	case "index":
		return i + 1, true
	case "index0":
		return i, true
	case "revindex":
		return n - i, true
	case "revindex0":
		return n - i - 1, true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return n, true
	case "previtem":
		return l.neighbour(l.index-1, "there is no previous item"), true
	case "nextitem":
		return l.neighbour(l.index+1, "there is no next item"), true
	}
	return nil, false
}

func (l *loop) neighbour(i int, absent string) any {
	if i < 0 || i >= len(l.items) {
		return &undefined{absent}
	}
	return l.items[i]
}
