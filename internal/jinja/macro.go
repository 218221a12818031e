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

type (
	macroStmt struct{ def macroDef }
	callStmt  struct {
		call *callExpr
		body macroDef
	}
)

func (st *macroStmt) exec(_ *run, s *scope) signal {
	s.set(st.def.name, &macro{&st.def, s})
	return onward
}

// exec calls the macro with the block's body as its caller.
func (st *callStmt) exec(r *run, s *scope) signal {
	r.pos = st.call.pos
	r.write(r.str(st.call.call(r, s, namedArg{"caller", &macro{&st.body, s}})))
	return onward
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
		case p.value != nil:
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
