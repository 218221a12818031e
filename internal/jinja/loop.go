package jinja

import "errors"

type forStmt struct {
	node
	target    target
	iter      expr
	test      expr // only items for which it is true, or nil
	recursive bool
	body      []stmt
	orElse    []stmt
}

func (f *forStmt) exec(r *run, s *scope) error {
	v, err := r.eval(f.iter, s)
	if err != nil {
		return err
	}
	return r.at(f.over(r, s, v, 1), f.pos)
}

// over runs the loop over the items of v; depth is how many recursive loops it is in.
func (f *forStmt) over(r *run, s *scope, v any, depth int) error {
	items, err := r.iterate(v)
	if err != nil {
		return r.at(err, f.iter.offset())
	}
	if f.test != nil {
		if items, err = f.filtered(r, s, items); err != nil {
			return err
		}
	}
	l := &loop{stmt: f, scope: s, items: items, depth: depth}
	ranThrough := false
	for l.index = range items {
		if err := r.step(1); err != nil {
			return err
		}
		inner := s.inner()
		inner.set("loop", l)
		err := f.target.assign(r, inner, items[l.index])
		if err == nil {
			err = r.execAll(f.body, inner)
		}
		switch {
		case err == nil:
			ranThrough = true
		case errors.Is(err, errBreak):
			items = nil
		case !errors.Is(err, errContinue):
			return err
		}
		if items == nil {
			break
		}
	}
	// As in Jinja, what decides is not whether there were items but whether the body
	// reached its end for one of them.
	if !ranThrough {
		return r.execAll(f.orElse, s.inner())
	}
	return nil
}

// filtered returns the items that pass the test of the loop.
func (f *forStmt) filtered(r *run, s *scope, items []any) ([]any, error) {
	kept := []any{}
	for _, item := range items {
		inner := s.inner()
		if err := f.target.assign(r, inner, item); err != nil {
			return nil, err
		}
		v, err := r.eval(f.test, inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			kept = append(kept, item)
		}
	}
	return kept, r.chargeItems(len(kept))
}

// loop is the variable loop.
type loop struct {
	stmt    *forStmt
	scope   *scope // around the loop
	items   []any
	index   int
	depth   int
	changed any // the arguments of the last call of loop.changed, or nil
}

// call runs a recursive loop over other items and returns what that wrote.
func (l *loop) call(r *run, a args) (any, error) {
	v, err := a.bind("loop", 1, "iterable")
	if err != nil {
		return nil, err
	}
	if !l.stmt.recursive {
		return nil, errors.New("the loop must have the word recursive to be called")
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	text, err := r.capture(func() error { return l.stmt.over(r, l.scope, v[0], l.depth+1) })
	return text, err
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
	case "depth":
		return int64(l.depth), true
	case "depth0":
		return int64(l.depth - 1), true
	case "previtem":
		return l.neighbour(l.index-1, "there is no previous item"), true
	case "nextitem":
		return l.neighbour(l.index+1, "there is no next item"), true
	case "cycle":
		return &function{"cycle", l.cycle}, true
	case "changed":
		return &function{"changed", l.hasChanged}, true
	}
	return nil, false
}

func (l *loop) neighbour(i int, absent string) any {
	if i < 0 || i >= len(l.items) {
		return &undefined{absent}
	}
	return l.items[i]
}

func (l *loop) cycle(_ *run, a args) (any, error) {
	if len(a.values) == 0 {
		return nil, errors.New("loop.cycle needs items to go through")
	}
	return a.values[l.index%len(a.values)], nil
}

// hasChanged tells whether its arguments differ from those of the call before.
func (l *loop) hasChanged(r *run, a args) (any, error) {
	if old, ok := l.changed.(Tuple); ok {
		same, err := r.equal(old, Tuple(a.values))
		if err != nil || same {
			return false, err
		}
	}
	l.changed = Tuple(a.values)
	return true, nil
}
