package jinja

import "fmt"

// stmt is a node that writes, or changes variables.
type stmt interface {
	exec(r *run, s *scope) error
}

func (r *run) exec(st stmt, s *scope) error {
	if err := r.enter(); err != nil {
		return err
	}
	err := st.exec(r, s)
	r.leave()
	return err
}

func (r *run) execAll(body []stmt, s *scope) error {
	for _, st := range body {
		if err := r.exec(st, s); err != nil {
			return err
		}
	}
	return nil
}

// execText runs a body and returns what it wrote.
func (r *run) execText(body []stmt, s *scope) (string, error) {
	return r.capture(func() error { return r.execAll(body, s) })
}

type (
	textStmt  struct{ text string }
	printStmt struct{ value expr }
	printTag  struct{ values []expr }
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
		filters expr // a chain of filters that ends in nil, or nil
		body    []stmt
	}
	withStmt struct {
		targets []target
		values  []expr
		body    []stmt
	}
	filterStmt struct {
		node
		filters expr
		body    []stmt
	}
	generationStmt struct{ body []stmt }
	controlStmt    struct{ err error }
)

func (st *textStmt) exec(r *run, _ *scope) error { return r.write(st.text) }

func (st *printStmt) exec(r *run, s *scope) error {
	v, err := r.eval(st.value, s)
	if err != nil {
		return err
	}
	text, err := r.str(v)
	if err != nil {
		return r.at(err, st.value.offset())
	}
	return r.at(r.write(text), st.value.offset())
}

func (st *printTag) exec(r *run, s *scope) error {
	for _, e := range st.values {
		if err := (&printStmt{e}).exec(r, s); err != nil {
			return err
		}
	}
	return nil
}

func (st *ifStmt) exec(r *run, s *scope) error {
	for _, b := range st.branches {
		v, err := r.eval(b.test, s)
		if err != nil {
			return err
		}
		if truth(v) {
			return r.execAll(b.body, s)
		}
	}
	return r.execAll(st.orElse, s)
}

func (st *setStmt) exec(r *run, s *scope) error {
	v, err := r.eval(st.value, s)
	if err != nil {
		return err
	}
	return st.target.assign(r, s, v)
}

func (st *setBlock) exec(r *run, s *scope) error {
	text, err := r.execText(st.body, s.inner())
	if err != nil {
		return err
	}
	v, err := r.applyAll(st.filters, s, text)
	if err != nil {
		return err
	}
	return st.target.assign(r, s, v)
}

// applyAll runs a chain of filters that has no operand of its own on v.
func (r *run) applyAll(chain expr, s *scope, v any) (any, error) {
	f, ok := chain.(*filterExpr)
	if !ok {
		return v, nil
	}
	v, err := r.applyAll(f.operand, s, v)
	if err != nil {
		return nil, err
	}
	v, err = f.apply(r, s, v)
	return v, r.at(err, f.pos)
}

func (st *withStmt) exec(r *run, s *scope) error {
	values, err := r.evalAll(st.values, s)
	if err != nil {
		return err
	}
	inner := s.inner()
	for i, t := range st.targets {
		if err := t.assign(r, inner, values[i]); err != nil {
			return err
		}
	}
	return r.execAll(st.body, inner)
}

func (st *filterStmt) exec(r *run, s *scope) error {
	text, err := r.execText(st.body, s.inner())
	if err != nil {
		return err
	}
	v, err := r.applyAll(st.filters, s, text)
	if err != nil {
		return err
	}
	if text, err = r.str(v); err != nil {
		return r.at(err, st.pos)
	}
	return r.write(text)
}

// exec writes the body and notes where in the output it is. In a captured output the
// place is not known yet: there the text may still be changed, or written twice.
func (st *generationStmt) exec(r *run, s *scope) error {
	start := r.out.Len()
	if err := r.execAll(st.body, s.inner()); err != nil {
		return err
	}
	if r.captures > 0 {
		r.hidden = true
		return nil
	}
	r.generations = append(r.generations, Range{start, r.out.Len()})
	return nil
}

func (st controlStmt) exec(*run, *scope) error { return st.err }

// target is what a value can be assigned to.
type target interface {
	assign(r *run, s *scope, v any) error
}

type (
	nameTarget      string
	namespaceTarget struct {
		node
		object, name string
	}
	tupleTarget struct {
		node
		parts []target
	}
)

func (t nameTarget) assign(_ *run, s *scope, v any) error {
	s.set(string(t), v)
	return nil
}

func (t *namespaceTarget) assign(r *run, s *scope, v any) error {
	ns, ok := s.get(t.object).(*namespace)
	if !ok {
		return r.at(fmt.Errorf("cannot assign to '%s.%s': it is not a namespace", t.object, t.name), t.pos)
	}
	ns.values.Set(t.name, v)
	return nil
}

func (t *tupleTarget) assign(r *run, s *scope, v any) error {
	items, err := r.iterate(v)
	if err != nil {
		return r.at(err, t.pos)
	}
	if len(items) != len(t.parts) {
		return r.at(fmt.Errorf("cannot unpack %d values into %d names", len(items), len(t.parts)), t.pos)
	}
	for i, part := range t.parts {
		if err := part.assign(r, s, items[i]); err != nil {
			return err
		}
	}
	return nil
}
