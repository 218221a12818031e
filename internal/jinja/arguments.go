package jinja

// arguments are those of a call, as written.
type arguments struct {
	positional []expr
	named      []param
	list       expr // *list; without eval there is none
}

// param is a name with a value: a parameter of a macro with its default, or an argument
// given by name.
type param struct {
	name  string
	value expr
}

// callOf parses the arguments of a call of f.
func (p *parser) callOf(f expr) expr {
	pos := p.peek().pos
	a := p.arguments()
	call := func(r *run, s *scope, extra ...namedArg) any {
		v := r.eval(f, s)
		given, named := a.eval(r, s)
		return r.call(v, given, append(named, extra...))
	}
	return expr{pos, func(r *run, s *scope) any { return call(r, s) }, call}
}

// arguments parses the arguments of a call: values, then names with values, and *list.
func (p *parser) arguments() (a arguments) {
	p.nest()
	defer p.unnest()
	open := p.expect("(")
	p.list(")", func() {
		t, hasList := p.peek(), a.list.eval != nil
		switch {
		case t.is("**"):
			panic(p.fail(t, "%s", notRendered("the argument", t.text)))
		case p.skip("*"):
			a.list = p.expression()
		case t.kind == name && p.peekAt(1).is("="):
			p.next()
			p.next()
			a.named = append(a.named, param{t.text, p.expression()})
			return
		default:
			a.positional = append(a.positional, p.expression())
			hasList = hasList || len(a.named) > 0
		}
		if hasList {
			panic(p.fail(open, "the call has its arguments in a wrong order"))
		}
	})
	return a
}

// eval evaluates the arguments and puts first before them.
func (a arguments) eval(r *run, s *scope, first ...any) (given []any, named []namedArg) {
	given = append(first, r.evalAll(a.positional, s)...)
	for _, p := range a.named {
		named = append(named, namedArg{p.name, r.eval(p.value, s)})
	}
	if a.list.eval != nil {
		given = append(given, r.iterate(r.eval(a.list, s))...)
	}
	return given, named
}
