package jinja

import (
	"fmt"
	"strings"
)

// attribute is object.name: an attribute or method, else the item of that name.
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
	case string, markup:
		methods = r.lib.stringMethods
	case []any:
		methods, changing = r.lib.listMethods, " append clear extend insert pop remove reverse sort "
	case Tuple:
		methods = r.lib.tupleMethods
	case *Dict:
		methods, changing = r.lib.dictMethods, " clear pop popitem setdefault update "
	case *loop:
		return o.attribute(name)
	case *namespace:
		return o.values.Get(name)
	}
	if do, ok := methods[name]; ok {
		return &method{object, name, do}, true
	}
	if strings.Contains(changing, " "+name+" ") {
		return &undefined{fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe: a template cannot "+
			"change what it is given; make a new one, as in {%% set x = x + [y] %%}", name, TypeName(object))}, true
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
	switch object.(type) {
	case string, markup:
		mustNotBeLeftOut("the method", name)
	case *loop, *macro:
		mustNotBeLeftOut("the attribute", name)
	}
	return &undefined{fmt.Sprintf("%s has no attribute '%s'", objectName(object), name)}
}

// The methods of lists and tuples, and of dicts.
var (
	listMethods = map[string]builtin{
		"index": {params{"/", "self", "value"}, listIndex},
		"count": {params{"/", "self", "value"}, listCount},
	}
	dictMethods = map[string]builtin{
		"get":    {params{"/", "self", "key", "default?"}, dictGet},
		"items":  {params{"/", "self"}, func(r *run, a args) any { return a.view("dict_items", r.pairs) }},
		"keys":   {params{"/", "self"}, func(r *run, a args) any { return a.view("dict_keys", r.keys) }},
		"values": {params{"/", "self"}, func(r *run, a args) any { return a.view("dict_values", dictValues) }},
	}
)

// listIndex is where a value first is in a list. As in Python it must be there.
func listIndex(r *run, a args) any {
	for i, item := range r.iterate(a.values[0]) {
		if r.equal(item, a.values[1]) {
			return int64(i)
		}
	}
	panic(failed("the value is not in the %s", TypeName(a.values[0])))
}

func listCount(r *run, a args) any {
	n := int64(0)
	for _, item := range r.iterate(a.values[0]) {
		if r.equal(item, a.values[1]) {
			n++
		}
	}
	return n
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

func dictValues(d *Dict) []any {
	items := make([]any, 0, d.Len())
	for _, value := range d.All() {
		items = append(items, value)
	}
	return items
}
