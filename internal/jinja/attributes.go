package jinja

import (
	"fmt"
	"strings"
)

// attribute is object.name: an attribute or method, else the item of that name. The order matters to
// a dict with a key that is also a method: of {"items": 1} d.items is the method, d['items']
// the 1 (https://jinja.palletsprojects.com/en/stable/templates/#variables).
func (r *run) attribute(object any, name string) any {
	mustExist(object)
	if v, ok := r.attributeOf(object, name); ok {
		return v
	}
	if d, ok := object.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v
		}
	}
	return missingAttribute(object, name)
}

// attributeOf returns what Python's getattr returns, and whether there is such an
// attribute. Methods that change a list or dict are there, for they hide a key of their
// name, but cannot be called.
func (r *run) attributeOf(object any, name string) (any, bool) {
	var methods map[string]builtin
	changing := ""
	switch o := object.(type) {
	case string:
		methods = stringMethods
	case []any:
		changing = " append clear extend insert pop remove reverse sort "
	case *Dict:
		methods, changing = dictMethods, " clear pop popitem setdefault update "
	case *loop:
		return o.attribute(name)
	case *namespace:
		return o.values.Get(name)
	}
	if do, ok := methods[name]; ok {
		return &function{name + "()", []any{object}, do}, true
	}
	if strings.Contains(changing, " "+name+" ") {
		return &undefined{fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe: a template cannot "+
			"change what it is given; make a new one, as in {%% set x = x + [y] %%}", name, TypeName(object))}, true
	}
	return nil, false
}

func missingAttribute(object any, name string) any {
	switch object.(type) {
	case string, []any, Tuple:
		mustNotBeLeftOut("the method", name)
	case *loop, *macro:
		mustNotBeLeftOut("the attribute", name)
	}
	return &undefined{fmt.Sprintf("'%s object' has no attribute '%s'", TypeName(object), name)}
}

// dictMethods are the methods of Python's dict that change nothing. Lists and tuples have no
// others that a template is known to call.
var dictMethods = map[string]builtin{
	"get":    {params{"/", "self", "key", "default?"}, dictGet},
	"items":  {params{"/", "self"}, func(r *run, a args) any { return a.view("dict_items", r.pairs) }},
	"keys":   {params{"/", "self"}, func(r *run, a args) any { return a.view("dict_keys", r.keys) }},
	"values": {params{"/", "self"}, func(r *run, a args) any { return a.view("dict_values", r.values) }},
}

// dictGet is d.get(key), which is None, not undefined, for a key that is not there.
func dictGet(_ *run, a args) any {
	if v, ok := a.values[0].(*Dict).lookup(a.values[1]); ok {
		return v
	}
	return a.or(2, nil)
}

func (a args) view(kind string, items func(*Dict) []any) any {
	return &view{kind: kind, items: items(a.values[0].(*Dict))}
}
