package jinja

import (
	"slices"
	"strings"
)

// callable is a value that a template can call.
type callable interface {
	call(r *run, given []any, named []namedArg) any
}

type namedArg struct {
	name  string
	value any
}

// builtin is a function, filter, test or method of this package. What a filter, test or
// method is applied to is its first argument.
type builtin struct {
	params params
	do     func(r *run, a args) any
}

// params are the names of a builtin's parameters; one that ends in ? may be left out. A
// first parameter / says that none may be given by name, as in Python's own signatures.
// With nil the builtin takes whatever it is given.
type params []string

// args are the arguments of one call, one for each parameter, with the name that errors
// call the builtin by.
type args struct {
	name   string
	values []any
	named  []namedArg // only where the builtin takes whatever it is given
}

// missing stands for an argument that was not given, which is not the same as None. It has a size,
// because Go may give all values of no size one address.
var missing any = new(struct{ byte })

// apply calls the builtin.
func (b builtin) apply(r *run, name string, given []any, named []namedArg) any {
	if len(given) > 0 {
		if s, ok := given[0].(string); ok { // which it may go through
			r.step(len(s) / 16)
		}
	}
	if b.params == nil {
		return b.do(r, args{name, given, named})
	}
	return b.do(r, args{name, b.params.bind(name, given, named), nil})
}

// bind gives each parameter its argument, or missing.
func (p params) bind(name string, given []any, named []namedArg) []any {
	if p[0] == "/" {
		p = p[1:]
		if len(named) > 0 {
			panic(failed("%s takes no keyword arguments", name))
		}
	}
	names := make([]string, len(p))
	for i, param := range p {
		names[i] = strings.TrimSuffix(param, "?")
	}
	values := bind(name, names, len(names), given, named)
	for i, v := range values {
		if v == missing && names[i] == p[i] {
			panic(failed("%s needs its argument '%s'", name, names[i]))
		}
	}
	return values
}

// bind returns an argument for each name, or missing. Only the first few may be given without
// their names.
func bind(who string, names []string, few int, given []any, named []namedArg) []any {
	if len(given) > few {
		panic(failed("%s takes %d argument(s) without a name (%s), have %d", who, few,
			strings.Join(names[:few], ", "), len(given)))
	}
	values := slices.Repeat([]any{missing}, len(names))
	copy(values, given)
	for _, n := range named {
		i := slices.Index(names, n.name)
		if i < 0 {
			panic(failed("%s takes no keyword argument '%s'", who, n.name))
		}
		if values[i] != missing {
			panic(failed("%s has two values for its argument '%s'", who, n.name))
		}
		values[i] = n.value
	}
	return values
}

// or returns argument i, or instead where it was not given.
func (a args) or(i int, instead any) any {
	if a.values[i] == missing {
		return instead
	}
	return a.values[i]
}

// flag is argument i as a switch that is off unless given.
func (a args) flag(i int) bool { return truth(a.or(i, false)) }

// int is argument i, which must be an integer, or instead.
func (a args) int(i int, instead int64) int64 {
	v := a.or(i, instead)
	n, ok := integer(v)
	if !ok {
		panic(failed("%s wants an integer, not %s", a.name, TypeName(v)))
	}
	return n
}

// printed is argument i as it prints.
func (a args) printed(r *run, i int) string {
	mustNotBeMarkup(a.values[i])
	return r.str(a.values[i])
}

// text is argument i, which must be a string.
func (a args) text(i int) string {
	s, ok := a.values[i].(string)
	if !ok {
		mustExist(a.values[i])
		panic(failed("%s wants a string, not %s", a.name, TypeName(a.values[i])))
	}
	return s
}

// function is a global function, or a method with the object it belongs to.
type function struct {
	name string
	self []any // the object, if there is one
	builtin
}

func (f *function) call(r *run, given []any, named []namedArg) any {
	return f.apply(r, f.name, append(f.self, given...), named)
}

// call calls what a template has before parentheses.
func (r *run) call(f any, given []any, named []namedArg) any {
	c, ok := f.(callable)
	if !ok {
		mustExist(f)
		panic(failed("'%s' object is not callable", TypeName(f)))
	}
	return r.made(c.call(r, given, named))
}

// library is what templates can use by name. A run points to it, because Go does not let a
// table refer to itself: the filter map is in filters and looks others up there.
type library map[string]map[string]builtin

// use applies a filter or test of the given name. Names are looked up here and not while parsing,
// as select('equalto', x) has them in strings.
func (r *run) use(kind, name string, given []any, named []namedArg) any {
	b, ok := r.lib[kind][name]
	if !ok {
		mustNotBeLeftOut("the "+kind, name)
		panic(failed("no %s named '%s'", kind, name))
	}
	if kind == "test" {
		name = "the test " + name
	}
	return b.apply(r, name, given, named)
}
