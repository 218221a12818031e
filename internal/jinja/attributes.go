package jinja

import (
	"fmt"
)

// attribute is object.name: an attribute or method, else the item of that name.
func (r *run) attribute(object any, name string) (any, error) {
	if u, ok := object.(*undefined); ok {
		return nil, u.err()
	}
	if v, ok := r.attributeOf(object, name); ok {
		return v, nil
	}
	if d, ok := object.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return missingAttribute(object, name), nil
}

// attributeOf returns what Python's getattr returns, and whether there is such an
// attribute. Methods that change a list or dict are there, for they hide a key of their
// name, but cannot be called.
func (r *run) attributeOf(object any, name string) (any, bool) {
	var methods map[string]builtin
	switch o := object.(type) {
	case string, markup:
		methods = r.lib.stringMethods
	case []any:
		methods = r.lib.listMethods
	case Tuple:
		methods = r.lib.tupleMethods
	case *Dict:
		methods = r.lib.dictMethods
	case *loop:
		return o.attribute(name)
	case *namespace:
		return o.values.Get(name)
	case *cycler:
		return o.attribute(name)
	case *macro:
		return o.attribute(name)
	}
	do, ok := methods[name]
	if !ok {
		return nil, false
	}
	if do == nil {
		return &undefined{fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe", name, TypeName(object))}, true
	}
	return &method{object, do}, true
}

func (m *macro) attribute(name string) (any, bool) {
	switch name {
	case "name":
		return m.name, true
	case "arguments":
		names := make(Tuple, len(m.params))
		for i, p := range m.params {
			names[i] = p.name
		}
		return names, true
	case "catch_kwargs":
		return m.kwargs, true
	case "catch_varargs":
		return m.varargs, true
	case "caller":
		return m.macroDef.caller, true
	}
	return nil, false
}

// objectName is how an error speaks of an object.
func objectName(object any) string {
	if object == nil {
		return "None"
	}
	return fmt.Sprintf("'%s object'", TypeName(object))
}

func missingAttribute(object any, name string) any {
	return &undefined{fmt.Sprintf("%s has no attribute '%s'", objectName(object), name)}
}

// The methods of lists, tuples and dicts; nil are those that change their object.
var (
	tupleMethods = map[string]builtin{"index": listIndex, "count": listCount}
	listMethods  = map[string]builtin{"index": listIndex, "count": listCount, "copy": listCopy,
		"append": nil, "clear": nil, "extend": nil, "insert": nil, "pop": nil, "remove": nil, "reverse": nil, "sort": nil}
	dictMethods = map[string]builtin{"get": dictGet, "items": dictItems, "keys": dictKeys, "values": dictValues, "copy": dictCopy,
		"clear": nil, "fromkeys": nil, "pop": nil, "popitem": nil, "setdefault": nil, "update": nil}
)

func listIndex(r *run, a args) (any, error) {
	v, err := a.positional("index()", 1, 1)
	if err != nil {
		return nil, err
	}
	items, _ := sequence(v[0])
	for i, item := range items {
		if same, err := r.equal(item, v[1]); err != nil || same {
			return int64(i), err
		}
	}
	return nil, fmt.Errorf("the value is not in the %s", TypeName(v[0]))
}

func listCount(r *run, a args) (any, error) {
	v, err := a.positional("count()", 1, 1)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	items, _ := sequence(v[0])
	for _, item := range items {
		same, err := r.equal(item, v[1])
		if err != nil {
			return nil, err
		}
		if same {
			n++
		}
	}
	return n, nil
}

func listCopy(_ *run, a args) (any, error) {
	v, err := a.positional("copy()", 0, 0)
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

func dictCopy(r *run, a args) (any, error) { return listCopy(r, a) }

func dictGet(_ *run, a args) (any, error) {
	v, err := a.positional("get()", 1, 2)
	if err != nil {
		return nil, err
	}
	value, ok, err := v[0].(*Dict).lookup(v[1])
	if !ok {
		value = or(v[2], nil)
	}
	return value, err
}

func dictItems(r *run, a args) (any, error)  { return view(a, "dict_items", r.pairs) }
func dictKeys(r *run, a args) (any, error)   { return view(a, "dict_keys", r.keys) }
func dictValues(r *run, a args) (any, error) { return view(a, "dict_values", r.dictValues) }

func view(a args, name string, items func(*Dict) ([]any, error)) (any, error) {
	v, err := a.positional(name, 0, 0)
	if err != nil {
		return nil, err
	}
	list, err := items(v[0].(*Dict))
	return &dictView{name, list}, err
}

func (r *run) dictValues(d *Dict) ([]any, error) {
	items := make([]any, 0, d.Len())
	for _, value := range d.All() {
		items = append(items, value)
	}
	return items, r.chargeItems(len(items))
}
