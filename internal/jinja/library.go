package jinja

// library is what templates can use by name. It is reached through the run, not through
// package variables, because its parts use each other: the filter select runs tests, the
// test filter knows filters, and the method format looks up attributes.
type library struct {
	filters, tests                                        map[string]builtin
	stringMethods, listMethods, tupleMethods, dictMethods map[string]builtin
}

var python = library{filters, tests, stringMethods, listMethods, tupleMethods, dictMethods}
