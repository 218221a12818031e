package jinja

// arguments are those of a call, as written.
type arguments struct {
	positional []expr
	named      []param
	list, dict expr // *list and **dict; without eval there is none
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

// arguments parses the arguments of a call: values, then names with values, *list and
// **dict.
func (p *parser) arguments() arguments {
	p.nest()
	defer p.unnest()
	var a arguments
	open := p.expect("(")
	p.list(")", func() {
		if !p.argument(&a) {
			panic(p.fail(open, "the call has its arguments in a wrong order"))
		}
	})
	return a
}

// argument parses one, and tells whether it may stand there.
func (p *parser) argument(a *arguments) bool {
	list, dict := a.list.eval != nil, a.dict.eval != nil
	switch t := p.peek(); {
	case p.skip("*"):
		a.list = p.expression()
		return !list && !dict
	case p.skip("**"):
		a.dict = p.expression()
		return !dict
	case t.kind == name && p.peekAt(1).is("="):
		p.next()
		p.next()
		a.named = append(a.named, param{t.text, p.expression()})
		return !dict
	}
	a.positional = append(a.positional, p.expression())
	return !list && !dict && len(a.named) == 0
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
	if a.dict.eval == nil {
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
			panic(failed("keywords must be strings, not %s", TypeName(key)))
		}
		named = append(named, namedArg{word, value})
	}
	return given, named
}
