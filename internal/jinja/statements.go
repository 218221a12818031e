package jinja

// stmt is a node that writes, or changes variables.
type stmt interface {
	exec(r *run, s *scope) signal
}

// signal is how a statement ended: what is left of the loop around it is to be run, or
// skipped.
type signal int

const (
	onward signal = iota
	breaking
	continuing
)

func (r *run) execAll(body []stmt, s *scope) signal {
	for _, st := range body {
		r.enter()
		end := st.exec(r, s)
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
	r.pos = e.offset()
	return v
}

type (
	textStmt  struct{ text string }
	printStmt struct{ value expr }
	ifStmt    struct {
		branches []branch
		orElse   []stmt
	}
	branch struct {
		test expr
		body []stmt
	}
	setStmt struct {
		target target
		value  expr
	}
	setBlock struct {
		target  target
		filters []*filterExpr // applied to what the body writes
		body    []stmt
	}
	filterStmt struct {
		filters []*filterExpr
		body    []stmt
	}
	generationStmt struct{ body []stmt }
	controlStmt    struct{ end signal }
)

func (st *textStmt) exec(r *run, _ *scope) signal {
	r.write(st.text)
	return onward
}

func (st *printStmt) exec(r *run, s *scope) signal {
	r.write(r.str(r.value(st.value, s)))
	return onward
}

func (st *ifStmt) exec(r *run, s *scope) signal {
	for _, b := range st.branches {
		if truth(r.value(b.test, s)) {
			return r.execAll(b.body, s)
		}
	}
	return r.execAll(st.orElse, s)
}

func (st *setStmt) exec(r *run, s *scope) signal {
	st.target.assign(r, s, r.value(st.value, s))
	return onward
}

func (st *setBlock) exec(r *run, s *scope) signal {
	st.target.assign(r, s, r.filtered(st.filters, st.body, s))
	return onward
}

func (st *filterStmt) exec(r *run, s *scope) signal {
	r.write(r.str(r.filtered(st.filters, st.body, s)))
	return onward
}

// filtered runs a body, and filters on what it wrote.
func (r *run) filtered(filters []*filterExpr, body []stmt, s *scope) any {
	var v any = r.execText(body, s.inner())
	for _, f := range filters {
		r.pos = f.pos
		v = f.apply(r, s, v)
	}
	return v
}

// exec writes the body and notes where in the output it is. In a captured output the
// place is not known yet: there the text may still be changed, or written twice.
func (st *generationStmt) exec(r *run, s *scope) signal {
	start := r.out.Len()
	r.execAll(st.body, s.inner())
	if r.captures > 0 {
		r.hidden = true
	} else {
		r.generations = append(r.generations, Range{start, r.out.Len()})
	}
	return onward
}

func (st controlStmt) exec(*run, *scope) signal { return st.end }

// target is what a value can be assigned to.
type target interface {
	assign(r *run, s *scope, v any)
}

type (
	nameTarget      string
	namespaceTarget struct{ object, name string }
	tupleTarget     []target
)

func (t nameTarget) assign(_ *run, s *scope, v any) { s.set(string(t), v) }

func (t namespaceTarget) assign(_ *run, s *scope, v any) {
	ns, ok := s.get(t.object).(*namespace)
	if !ok {
		panic(failed("cannot assign to '%s.%s': it is not a namespace; write {%% set %s = namespace() %%} before",
			t.object, t.name, t.object))
	}
	ns.values.Set(t.name, v)
}

func (t tupleTarget) assign(r *run, s *scope, v any) {
	items := r.iterate(v)
	if len(items) != len(t) {
		panic(failed("cannot unpack %d values into %d names", len(items), len(t)))
	}
	for i, part := range t {
		part.assign(r, s, items[i])
	}
}
