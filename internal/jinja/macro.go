package jinja

import (
	"fmt"
	"slices"
)

// macroDef is a macro as written.
type macroDef struct {
	name   string
	params []param
	body   []stmt
	caller bool // the body reads caller: only then a call block may call the macro
}

// macroStmt parses a macro. It is a variable like any other, and can be called from other
// macros, and from itself.
func (p *parser) macroStmt() stmt {
	t := p.expectKind(name)
	def := p.macroDef(t.text, p.signature(), "macro", "endmacro")
	return func(_ *run, s *scope) signal {
		s.set(def.name, &macro{def, s})
		return onward
	}
}

// macroDef parses the body of a macro.
func (p *parser) macroDef(name string, params []param, opener, end string) *macroDef {
	before := p.callers
	body := p.function(opener, end)
	return &macroDef{name, params, body, p.callers > before}
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
		} else if len(params) > 0 && params[len(params)-1].value.eval != nil {
			panic(p.fail(t, "the parameter %s has no default, but the one before it has", t.text))
		}
		params = append(params, q)
	}
	p.next()
	return params
}

// callStmt calls a macro with the block's body as its caller.
func (p *parser) callStmt() stmt {
	var params []param
	if p.peek().is("(") {
		params = p.signature()
	}
	t := p.peek()
	e := p.expression()
	if e.call == nil {
		panic(p.fail(t, "the tag call wants a call of a macro"))
	}
	body := p.macroDef("caller", params, "call", "endcall")
	return func(r *run, s *scope) signal {
		r.pos = e.pos
		r.write(r.str(e.call(r, s, namedArg{"caller", &macro{body, s}})))
		return onward
	}
}

// macro is a macro with the scope it was defined in: it sees the variables of that place,
// not those of where it is called.
type macro struct {
	*macroDef
	scope *scope
}

func (m *macro) call(r *run, given []any, named []namedArg) any {
	r.enter()
	defer r.leave()
	s := m.scope.inner()
	m.bind(r, s, given, named)
	return r.execText(m.body, s)
}

// bind gives the parameters their arguments. A default may use the parameters before it.
func (m *macro) bind(r *run, s *scope, given []any, named []namedArg) {
	if len(given) > len(m.params) {
		panic(failed("macro '%s' takes not more than %d argument(s)", m.name, len(m.params)))
	}
	byName := m.byName(s, len(given), named)
	for i, p := range m.params {
		v, ok := byName[p.name]
		switch {
		case i < len(given):
			v = given[i]
		case ok:
		case p.value.eval != nil:
			v = r.eval(p.value, s)
		default:
			v = &undefined{fmt.Sprintf("parameter '%s' was not provided", p.name)}
		}
		s.set(p.name, v)
	}
}

// byName returns the arguments that were given by name, after as many as given without
// one, and sets caller.
func (m *macro) byName(s *scope, given int, named []namedArg) map[string]any {
	out := map[string]any{}
	if m.caller {
		s.set("caller", &undefined{"no caller defined"})
	}
	for _, n := range named {
		i := slices.IndexFunc(m.params, func(p param) bool { return p.name == n.name })
		switch {
		case i >= 0 && i < given:
			panic(failed("macro '%s' got two values for its argument '%s'", m.name, n.name))
		case i >= 0:
			out[n.name] = n.value
		case n.name == "caller" && m.caller:
			s.set("caller", n.value)
		default:
			panic(failed("macro '%s' takes no keyword argument '%s'", m.name, n.name))
		}
	}
	return out
}
