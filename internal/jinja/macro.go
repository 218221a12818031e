package jinja

import (
	"fmt"
	"slices"
)

// macroDef is a macro as written.
type macroDef struct {
	name   string
	params []param
	caller bool // the body reads caller: only then a call block may call the macro
	body   []stmt
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
	return &macroDef{name, params, p.callers > before, body}
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

// call binds the arguments and runs the body. A parameter without an argument or a default is
// undefined, where a function of Python would fail. What comes back is the text that the body
// has written, also where it looks like a number: templates compare fact(3)|int.
//
// A macro that reads caller has it as one more parameter, which only a call block sets. One that
// does not read it refuses it as an unknown name, in Jinja as here.
func (m *macro) call(r *run, given []any, named []namedArg) any {
	r.enter()
	defer r.leave()
	params := m.params
	if m.caller {
		params = append(slices.Clip(params), param{name: "caller"})
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	s := m.scope.inner()
	for i, v := range bind("macro '"+m.name+"'", names, len(m.params), given, named) {
		switch p := params[i]; {
		case v != missing:
		case p.value.eval != nil: // which may use the parameters before it
			v = r.eval(p.value, s)
		default:
			v = &undefined{fmt.Sprintf("parameter '%s' was not provided", p.name)}
		}
		s.set(names[i], v)
	}
	return r.execText(m.body, s)
}
