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

	// What the body reads: only a macro that reads them takes more arguments than it names.
	varargs, kwargs, caller bool
}

type (
	macroStmt struct{ def macroDef }
	callStmt  struct {
		call *callExpr
		body macroDef
	}
)

func (st *macroStmt) exec(_ *run, s *scope) error {
	s.set(st.def.name, &macro{&st.def, s})
	return nil
}

// exec calls the macro with the block's body as its caller.
func (st *callStmt) exec(r *run, s *scope) error {
	v, err := st.call.call(r, s, namedArg{"caller", &macro{&st.body, s}})
	if err != nil {
		return r.at(err, st.call.pos)
	}
	text, err := r.str(v)
	if err != nil {
		return r.at(err, st.call.pos)
	}
	return r.write(text)
}

// macro is a macro with the scope it was defined in.
type macro struct {
	*macroDef
	scope *scope
}

func (m *macro) call(r *run, a args) (any, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	s := m.scope.inner()
	if err := m.bind(r, s, a); err != nil {
		return nil, err
	}
	text, err := r.execText(m.body, s)
	return text, err
}

// bind gives the parameters their arguments. A default may use the parameters before it.
func (m *macro) bind(r *run, s *scope, a args) error {
	named, err := m.take(s, a)
	if err != nil {
		return err
	}
	for i, p := range m.params {
		v, given := named[p.name], false
		switch {
		case i < len(a.values):
			v, given = a.values[i], true
		default:
			_, given = named[p.name]
		}
		if !given {
			if v, err = m.standIn(r, s, p); err != nil {
				return err
			}
		}
		s.set(p.name, v)
	}
	return nil
}

func (m *macro) standIn(r *run, s *scope, p param) (any, error) {
	if p.value == nil {
		return &undefined{fmt.Sprintf("parameter '%s' was not provided", p.name)}, nil
	}
	return r.eval(p.value, s)
}

// take returns the arguments that were given by name, and sets varargs, kwargs and caller.
func (m *macro) take(s *scope, a args) (map[string]any, error) {
	named, rest := map[string]any{}, new(Dict)
	if m.caller {
		s.set("caller", &undefined{"no caller defined"})
	}
	for _, n := range a.named {
		i := slices.IndexFunc(m.params, func(p param) bool { return p.name == n.name })
		switch {
		case i >= 0 && i < len(a.values):
			return nil, fmt.Errorf("macro '%s' got two values for its argument '%s'", m.name, n.name)
		case i >= 0:
			named[n.name] = n.value
		case n.name == "caller" && m.caller:
			s.set("caller", n.value)
		case m.kwargs:
			rest.Set(n.name, n.value)
		default:
			return nil, fmt.Errorf("macro '%s' takes no keyword argument '%s'", m.name, n.name)
		}
	}
	extra := a.values[min(len(m.params), len(a.values)):]
	if len(extra) > 0 && !m.varargs {
		return nil, fmt.Errorf("macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
	if m.varargs {
		s.set("varargs", Tuple(slices.Clone(extra)))
	}
	if m.kwargs {
		s.set("kwargs", rest)
	}
	return named, nil
}
