package jinja

import (
	"errors"
	"fmt"
)

// namespace is what namespace() makes: an object whose attributes a template may set.
type namespace struct{ values *Dict }

// cycler goes through its items again and again.
type cycler struct {
	items []any
	next  int
}

// joiner is empty when first called, and a separator from then on.
type joiner struct {
	separator any
	used      bool
}

// globals are the functions that every template has.
var globals = map[string]*function{
	"range":           {"range", makeRange},
	"dict":            {"dict", makeDict},
	"namespace":       {"namespace", makeNamespace},
	"cycler":          {"cycler", makeCycler},
	"joiner":          {"joiner", makeJoiner},
	"raise_exception": {"raise_exception", raise},
	"strftime_now":    {"strftime_now", strftimeNow},
}

func global(name string) any {
	if f, ok := globals[name]; ok {
		return f
	}
	return nil
}

func makeRange(_ *run, a args) (any, error) {
	if len(a.named) > 0 || len(a.values) < 1 || len(a.values) > 3 {
		return nil, errors.New("range takes one to three integers")
	}
	var n [3]int64
	for i, v := range a.values {
		var err error
		if n[i], err = intArg("range", v, 0); err != nil {
			return nil, err
		}
	}
	v := rangeValue{start: n[0], stop: n[1], step: n[2]}
	switch len(a.values) {
	case 1:
		v = rangeValue{stop: n[0], step: 1}
	case 2:
		v.step = 1
	}
	if v.step == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	return v.withLength()
}

// withLength counts the numbers of a range. It counts in floats, which cannot overflow,
// for beyond maxRange only the size matters.
func (v rangeValue) withLength() (any, error) {
	n := (float64(v.stop) - float64(v.start)) / float64(v.step)
	switch {
	case n <= 0:
		return v, nil
	case n > maxRange:
		return nil, fmt.Errorf("range too big: a template may have at most %d numbers", maxRange)
	}
	span, step := v.stop-v.start, v.step
	if step < 0 {
		span, step = -span, -step
	}
	v.length = 1 + (span-1)/step
	return v, nil
}

func makeDict(r *run, a args) (any, error) {
	if len(a.values) > 1 {
		return nil, fmt.Errorf("dict expected at most 1 argument, got %d", len(a.values))
	}
	d := new(Dict)
	for _, v := range a.values {
		if err := r.fill(d, v); err != nil {
			return nil, err
		}
	}
	for _, n := range a.named {
		d.Set(n.name, n.value)
	}
	return d, r.chargeItems(4 * d.Len())
}

// fill adds to d what v holds, a dict or a list of pairs.
func (r *run) fill(d *Dict, v any) error {
	if from, ok := v.(*Dict); ok {
		for key, value := range from.All() {
			if err := d.insert(key, value); err != nil {
				return err
			}
		}
		return nil
	}
	items, err := r.iterate(v)
	if err != nil {
		return err
	}
	for _, item := range items {
		pair, err := r.iterate(item)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("dictionary update sequence element has length %d; 2 is required", len(pair))
		}
		if err := d.insert(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func makeNamespace(r *run, a args) (any, error) {
	d, err := makeDict(r, a)
	if err != nil {
		return nil, err
	}
	return &namespace{d.(*Dict)}, nil
}

func makeCycler(_ *run, a args) (any, error) {
	if len(a.values) == 0 {
		return nil, errors.New("cycler needs at least one item")
	}
	return &cycler{items: a.values}, nil
}

func (c *cycler) attribute(name string) (any, bool) {
	switch name {
	case "current":
		return c.items[c.next], true
	case "next":
		return &function{"next", func(*run, args) (any, error) {
			v := c.items[c.next]
			c.next = (c.next + 1) % len(c.items)
			return v, nil
		}}, true
	case "reset":
		return &function{"reset", func(*run, args) (any, error) {
			c.next = 0
			return nil, nil
		}}, true
	}
	return nil, false
}

func makeJoiner(_ *run, a args) (any, error) {
	v, err := a.bind("joiner", 0, "sep")
	if err != nil {
		return nil, err
	}
	return &joiner{separator: or(v[0], ", ")}, nil
}

func (j *joiner) call(*run, args) (any, error) {
	if j.used {
		return j.separator, nil
	}
	j.used = true
	return "", nil
}

func raise(r *run, a args) (any, error) {
	v, err := a.bind("raise_exception", 1, "message")
	if err != nil {
		return nil, err
	}
	message, err := r.str(v[0])
	if err != nil {
		return nil, err
	}
	return nil, Raised(message)
}
