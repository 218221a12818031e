package jinja

import (
	"fmt"
	"regexp"
	"strings"
)

// namespace is what namespace() makes: an object whose attributes a template may set. It
// is how a loop of a template remembers anything, for set inside a loop is forgotten.
type namespace struct{ values *Dict }

// globals are the functions that every template has. Those of the last line are what
// transformers adds to Jinja's.
var globals = map[string]builtin{
	"range":     {params{"/", "start", "stop?", "step?"}, makeRange},
	"dict":      {nil, func(r *run, a args) any { return r.dict(a) }},
	"namespace": {nil, func(r *run, a args) any { return &namespace{r.dict(a)} }},

	"raise_exception": {params{"message"}, raise}, "strftime_now": {params{"format"}, strftimeNow},
}

// makeRange is range(stop) and range(start, stop, step). Its numbers are made at once, which
// the bound on them allows.
func makeRange(_ *run, a args) any {
	start, stop, step := int64(0), a.int(0, 0), a.int(2, 1)
	if a.values[1] != missing {
		start, stop = stop, a.int(1, 0)
	}
	if step == 0 {
		panic(failed("range() arg 3 must not be zero"))
	}
	// Counted in floats, which do not overflow.
	if n := (float64(stop) - float64(start)) / float64(step); n > maxRange {
		panic(failed("range too big: a template may have at most %d numbers", maxRange))
	}
	v := &view{kind: "range", shown: fmt.Sprintf("range(%d, %d)", start, stop)}
	if step != 1 {
		v.shown = fmt.Sprintf("range(%d, %d, %d)", start, stop, step)
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		v.items = append(v.items, i)
	}
	return v
}

// dict is dict(...): what a dict holds, and the named arguments.
func (r *run) dict(a args) *Dict {
	if len(a.values) > 1 {
		panic(failed("%s takes at most 1 argument without a name, have %d", a.name, len(a.values)))
	}
	d := new(Dict)
	for _, v := range a.values {
		from, ok := v.(*Dict)
		if !ok {
			panic(failed("%s wants a dict, not %s; write %s(key=value)", a.name, TypeName(v), a.name))
		}
		for key, value := range from.All() {
			d.insert(key, value)
		}
	}
	for _, n := range a.named {
		d.Set(n.name, n.value)
	}
	return d
}

// raise is raise_exception, by which a template refuses a conversation, such as one where
// two users speak in a row.
func raise(r *run, a args) any { panic(failure{Raised(r.str(a.values[0]))}) }

// goLayouts are the directives of C's strftime, each as a layout of Go's package time.
var goLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'e': "_2", 'j': "002", 'Z': "MST", 'z': "-0700",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

// directive is one of strftime's: a letter after %, with a minus between that asks for a number
// without the zero or blank before it (%-d is %d so), which Python takes from the C library.
var directive = regexp.MustCompile(`(?s)%-?.`)

// strftimeNow writes the current time as strftime does.
func strftimeNow(r *run, a args) any {
	now := r.now()
	return directive.ReplaceAllStringFunc(a.text(0), func(d string) string {
		layout, known := goLayouts[d[len(d)-1]]
		switch {
		case d == "%%":
			return "%"
		case !known:
			panic(failed("strftime_now: unknown directive %s; it knows %%Y, %%m, %%d, %%B, %%H, %%M and their like", d))
		case d[1] == '-':
			return strings.TrimLeft(now.Format(layout), "0 ")
		}
		return now.Format(layout)
	})
}
