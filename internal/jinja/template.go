package jinja

import (
	"fmt"
	"strings"
)

// Template is a parsed template. It does not change: any number of goroutines may render
// it at once.
type Template struct {
	source
	body        []stmt
	generations bool
}

// Range is a piece of a text, in bytes: Start is the first, End the one after the last.
type Range struct{ Start, End int }

// Output is a rendered template.
type Output struct {
	Text        string
	Generations []Range // what generation blocks wrote, in order
	Hidden      bool    // one wrote to a macro or block, and where that went is not known
}

// maxSource bounds the size of a template. The longest known have 40 KB.
const maxSource = 4 << 20

// Parse reads a template; its errors begin with the name.
func Parse(name, text string) (t *Template, err error) {
	if len(text) > maxSource {
		return nil, fmt.Errorf("%s: a template of %d bytes; at most %d are read", name, len(text), maxSource)
	}
	src := source{name, normalize(text)}
	defer catch(&err)
	return parse(src, lex(src)), nil
}

// normalize gives every line the ending \n and takes the last one away, as jinja2 does with its
// default keep_trailing_newline=False: an editor's newline at the end of a file is no text.
func normalize(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	return strings.TrimSuffix(text, "\n")
}

// HasGenerations tells whether the template has generation blocks.
func (t *Template) HasGenerations() bool { return t.generations }

// Render runs the template. A value in vars may be nil, a bool, int, int64, float64, string,
// json.Number, *Dict or Tuple, or a []any or map[string]any of these.
func (t *Template) Render(vars map[string]any, o Options) (Output, error) {
	r := newRun(o)
	r.source = t.source
	top := &scope{vars: make(map[string]any, len(vars))}
	for name, v := range vars {
		v, err := fromGo(v)
		if err != nil {
			return Output{}, fmt.Errorf("%s: variable %s: %w", t.name, name, err)
		}
		top.vars[name] = v
	}
	if err := r.body(t.body, top.inner()); err != nil {
		return Output{}, r.at(err, r.pos)
	}
	return Output{r.out.String(), r.generations, r.hidden}, nil
}

func (r *run) body(body []stmt, s *scope) (err error) {
	defer catch(&err)
	r.execAll(body, s)
	return nil
}

// scope holds variables; what it does not have, the scope around it may. A macro keeps the scope
// that it was defined in and looks a name up when it runs, so that it sees what is set after it.
type scope struct {
	vars   map[string]any
	parent *scope
}

func (s *scope) inner() *scope { return &scope{parent: s} }

func (s *scope) set(name string, v any) {
	if s.vars == nil {
		s.vars = make(map[string]any)
	}
	s.vars[name] = v
}

// get finds a variable, then a global; what is neither is undefined. That is no error by itself:
// templates ask for variables such as tools or enable_thinking that a caller may leave out.
func (s *scope) get(name string) any {
	for at := s; at != nil; at = at.parent {
		if v, ok := at.vars[name]; ok {
			return v
		}
	}
	if f, ok := globals[name]; ok {
		return &function{name: name, builtin: f}
	}
	mustNotBeLeftOut("the name", name)
	return &undefined{fmt.Sprintf("'%s' is undefined", name)}
}
