package jinja

import (
	"fmt"
	"slices"
)

// callable is a value that a template can call.
type callable interface {
	call(r *run, a args) (any, error)
}

// builtin is what a function, filter, test or method does.
type builtin func(r *run, a args) (any, error)

// function is a global function.
type function struct {
	name string
	do   builtin
}

func (f *function) call(r *run, a args) (any, error) { return f.do(r, a) }

// method is a method with the object it belongs to.
type method struct {
	object any
	do     builtin
}

func (m *method) call(r *run, a args) (any, error) {
	a.values = append([]any{m.object}, a.values...)
	return m.do(r, a)
}

// param is a name with a value: a parameter of a macro with its default, or an argument
// given by name.
type param struct {
	name  string
	value expr
}

// arguments are those of a call, as written.
type arguments struct {
	positional []expr
	named      []param
	list, dict expr // *list and **dict, or nil
}

// args are the values that a builtin gets. The first of a filter, test or method is what
// it is applied to.
type args struct {
	values []any
	named  []namedArg
}

type namedArg struct {
	name  string
	value any
}

// eval evaluates the arguments and puts first before them.
func (a arguments) eval(r *run, s *scope, first ...any) (args, error) {
	out := args{values: slices.Clone(first)}
	for _, e := range a.positional {
		v, err := r.eval(e, s)
		if err != nil {
			return out, err
		}
		out.values = append(out.values, v)
	}
	for _, p := range a.named {
		v, err := r.eval(p.value, s)
		if err != nil {
			return out, err
		}
		out.named = append(out.named, namedArg{p.name, v})
	}
	return out, a.spread(r, s, &out)
}

// spread adds what *list and **dict hold.
func (a arguments) spread(r *run, s *scope, out *args) error {
	if a.list != nil {
		v, err := r.eval(a.list, s)
		if err != nil {
			return err
		}
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		out.values = append(out.values, items...)
	}
	if a.dict == nil {
		return nil
	}
	v, err := r.eval(a.dict, s)
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return fmt.Errorf("argument after ** must be a mapping, not %s", TypeName(v))
	}
	for key, value := range d.All() {
		word, ok := text(key)
		if !ok {
			return fmt.Errorf("keywords must be strings")
		}
		out.named = append(out.named, namedArg{word, value})
	}
	return nil
}

// missing stands for an argument that was not given.
var missing any = new(struct{ byte })

// bind gives each of the named parameters its argument, or missing; the first required
// ones must be there.
func (a args) bind(function string, required int, names ...string) ([]any, error) {
	if len(a.values) > len(names) {
		return nil, fmt.Errorf("%s takes at most %d arguments, have %d", function, len(names), len(a.values))
	}
	out := make([]any, len(names))
	for i := range out {
		out[i] = missing
	}
	copy(out, a.values)
	for _, n := range a.named {
		i := slices.Index(names, n.name)
		if i < 0 {
			return nil, fmt.Errorf("%s has no argument '%s'", function, n.name)
		}
		if out[i] != missing {
			return nil, fmt.Errorf("%s has two values for its argument '%s'", function, n.name)
		}
		out[i] = n.value
	}
	for i := range required {
		if out[i] == missing {
			return nil, fmt.Errorf("%s needs its argument '%s'", function, names[i])
		}
	}
	return out, nil
}

// positional returns from least to most arguments, which Python takes without names only;
// those not given are missing.
func (a args) positional(function string, least, most int) ([]any, error) {
	if len(a.named) > 0 {
		return nil, fmt.Errorf("%s takes no keyword arguments", function)
	}
	if n := len(a.values) - 1; n < least || n > most {
		return nil, fmt.Errorf("%s takes %d to %d arguments, have %d", function, least, most, n)
	}
	out := slices.Clone(a.values)
	for len(out) < most+1 {
		out = append(out, missing)
	}
	return out, nil
}

// or returns v, or instead where v was not given.
func or(v, instead any) any {
	if v == missing {
		return instead
	}
	return v
}

// intArg returns the integer in the argument v, or instead if v was not given.
func intArg(function string, v any, instead int64) (int64, error) {
	if v == missing {
		return instead, nil
	}
	n, ok := integer(v)
	if !ok {
		return 0, fmt.Errorf("%s wants an integer, not %s", function, TypeName(v))
	}
	return n, nil
}

// textArg returns the string in the argument v.
func textArg(function string, v any) (string, error) {
	s, ok := text(v)
	if !ok {
		if u, isUndefined := v.(*undefined); isUndefined {
			return "", u.err()
		}
		return "", fmt.Errorf("%s wants a string, not %s", function, TypeName(v))
	}
	return s, nil
}
