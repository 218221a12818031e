package jinja

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestErrors: a mistake in a template is an error that says where it is and what.
func TestErrors(t *testing.T) {
	tests := []struct{ template, want string }{
		{`{{ missing.x }}`, "1:11: 'missing' is undefined"},
		{`{{ missing() }}`, "'missing' is undefined"},
		{`{{ missing + 1 }}`, "'missing' is undefined"},
		{`{{ missing|int(7) }}`, "'missing' is undefined"},
		{`{{ d.missing|float }}`, "'dict object' has no attribute 'missing'"},
		{`{{ d.missing.x }}`, "'dict object' has no attribute 'missing'"},
		{`{{ 'a' + 1 }}`, `can only concatenate str (not "int") to str`},
		{`{{ 1 + 'a' }}`, "unsupported operand type(s) for +: 'int' and 'str'"},
		{`{{ 1 / 0 }}`, "division by zero"},
		{`{{ l.append(1) }}`, "access to attribute 'append' of 'list' object is unsafe"},
		{`{{ d.update({}) }}`, "unsafe"},
		{`{{ s.__class__.__mro__ }}`, "no attribute '__class__'"},
		{`{% for x in none %}{% endfor %}`, "'NoneType' object is not iterable"},
		{`{{ none < 1 }}`, "'<' not supported between instances of 'NoneType' and 'int'"},
		{`{{ 1 in 'a' }}`, "requires string as left operand"},
		{`{{ [1, 2] * 2 }}`, "unsupported operand type(s) for *: 'list' and 'int'"},
		{`{{ (1,) + (2,) }}`, "unsupported operand type(s) for +: 'tuple' and 'tuple'"},
		{`{{ [1] < [2] }}`, "'<' not supported between instances of 'list' and 'list'"},
		{`{{ dict([('x', 1)]) }}`, "dict wants a dict, not list; write dict(key=value)"},
		{`{{ [s|safe] }}`, "a Markup has no text to print"},
		{`{{ {s|safe: 1} }}`, "unhashable type: 'Markup'"},
		{`{{ {(1, 2): 3} }}`, "unhashable type: 'tuple'"},
		{`{{ 1, 2 }}`, "expected }}, have ','"},
		{`{{ 1e999 }}`, "is no number"},
		{`{{ 1e300 * 1e300 }}`, "too large for a number"},
		{`{{ 'nan'|float }}`, "too large for a number"},
		{`{{ none() }}`, "'NoneType' object is not callable"},
		{`{{ s|nope }}`, "no filter named 'nope'"},
		{`{{ s is nope }}`, "no test named 'nope'"},
		{`{{ l|map('upper')|length }}`, "object of type 'generator' has no len()"},
		{"\n\n  {% for x in l %}", "3:19: the block for has no endfor"},
		{`{% endfor %}`, "unknown tag 'endfor'"},
		{`{% if true %}{% endfor %}`, "unknown tag 'endfor'; here [elif else endif] could end the block"},
		{`{% if %}x{% endif %}`, "expected an expression"},
		{`{{ 日 本 }}`, "1:6: expected }}, have '本'"},
		{`{{ [1) }}`, "unexpected ')', want ']'"},
		{`{{ 'abc }}`, "the string has no end"},
		{`{% set true = 1 %}`, "can't assign to 'true'"},
		{`{% set x.y = 1 %}`, "it is not a namespace"},
		{`{% break %}`, "'break' outside a loop"},
		{`{% for x in l %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}`, "'break' outside a loop"},
		{`{# open`, "the comment has no end"},
		{`{{ s|safe + '<' }}`, "write |safe last"},
		{`{{ (s|safe).strip() }}`, "write |safe last"},
		{`{{ s|safe|trim }}`, "write |safe last"},
		{`{{ (s|safe)[0] }}`, "write |safe last"},
		{`{{ s|safe < 'x' }}`, "write |safe last"},
		{`{{ ] }}`, "unexpected ']': no bracket is open"},
		{`{{ a`, "the tag has no end; want }}"},
		{`{{ l|map('string') }}`, "write |list or |join before"},
		{`{{ namespace(a=1) }}`, "a Namespace has no text to print"},
		{`{{ [x]|tojson }}`, "object of type Undefined is not JSON serializable"},
		{`{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}`, "macro 'f' takes 1 argument(s) without a name (a), have 2"},
		{`{% macro f(a) %}{% endmacro %}{{ f(q=2) }}`, "macro 'f' takes no keyword argument 'q'"},
		{`{% macro f(a=1, b) %}{% endmacro %}`, "the parameter b has no default"},
		{`{{ 'a'.replace('a', new='b') }}`, "takes no keyword arguments"},
		{`{{ 'a'.split('') }}`, "empty separator"},
		{`{{ 'a'.startswith('a', 1) }}`, "startswith() takes 2 argument(s) without a name (self, value), have 3"},
		{`{{ 0x1f }}`, "write numbers in decimal digits"},
		{`{{ l[::0] }}`, "slice step cannot be zero"},
		{`{{ d[1:] }}`, "'dict' object has no slices"},
		{`{{ {[]: 1} }}`, "unhashable type: 'list'"},
		{`{{ f(a=1, 2) }}`, "arguments in a wrong order"},
		{`{% for a, b in [(1,2,3)] %}{% endfor %}`, "cannot unpack 3 values into 2 names"},
		{`{{ '\x4' }}`, "the escape \\x4 does not name a character"},
		{`{{ strftime_now('%Q') }}`, "unknown directive %Q"},
		{`{{ 9223372036854775807 + 1 }}`, "too large for a number"},
	}
	vars := contextVars(t)
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) {
			got, err := render(tt.template, vars)
			if err == nil {
				t.Fatalf("no error; rendered %q", got)
			}
			if placed, ok := errors.AsType[*Error](err); !ok || placed.Line < 1 || placed.Column < 1 {
				t.Errorf("error %v has no place", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
		})
	}
}

// TestLeftOut: what Jinja has and chat templates do not use is an error that names it, its
// line and what to write instead.
func TestLeftOut(t *testing.T) {
	tests := []struct{ template, what, remedy string }{
		{`{{ '%s'|format(s) }}`, "the filter 'format'", "join the pieces with ~"},
		{`{{ l|groupby('x') }}`, "the filter 'groupby'", "selectattr"},
		{`{{ l|map('urlize')|list }}`, "the filter 'urlize'", "rewrite this line without it"},
		{`{{ '{}'.format(s) }}`, "the method 'format'", "join the pieces with ~"},
		{`{% raw %}{{ x }}{% endraw %}`, "the tag 'raw'", "{{ '{{' }}"},
		{`{{ s|e }}`, "the filter 'e'", "write the text as it is"},
		{`{{ s|map('escape')|list }}`, "the filter 'escape'", "write the text as it is"},
		{`{{ s.find('x') }}`, "the method 'find'", "cut with split"},
		{`{{ l.index(1) }}`, "the method 'index'", "ask with in"},
		{`{{ (1, 2).count(1) }}`, "the method 'count'", "rewrite this line without it"},
		{`{{ s.rsplit(' ', 1) }}`, "the method 'rsplit'", "[-1]"},
		{`{{ s.splitlines() }}`, "the method 'splitlines'", "write split("},
		{`{{ s.partition(' ') }}`, "the method 'partition'", "split(x, 1)"},
		{`{{ s.removeprefix('x') }}`, "the method 'removeprefix'", "startswith"},
		{`{{ s.isdigit() }}`, "the method 'isdigit'", "rewrite this line without it"},
		{`{{ dict(**d) }}`, "the argument '**'", "by its name"},
		{`{{ s.zfill(3) }}`, "the method 'zfill'", "join the pieces with ~"},
		{`{{ '%s' % s }}`, "the operator '%'", "join the pieces with ~"},
		{`{{ 2 ** 3 }}`, "the operator '**'", "multiply with *"},
		{`{{ s is sameas true }}`, "the test 'sameas'", "compare with =="},
		{`{{ l|select('escaped')|list }}`, "the test 'escaped'", "rewrite this line without it"},
		{`{{ cycler('a', 'b') }}`, "the name 'cycler'", "loop.index0 % 2"},
		{`{% macro f() %}{{ varargs }}{% endmacro %}{{ f() }}`, "the name 'varargs'", "rewrite this line without it"},
		{`{% macro f() %}{% endmacro %}{{ f.name }}`, "the attribute 'name'", "rewrite this line without it"},
		{`{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}`, "the attribute 'cycle'", "loop.index0 % 2"},
		{`{% for x in l %}{{ loop.depth }}{% endfor %}`, "the attribute 'depth'", "rewrite this line without it"},
		{`{% for x in l recursive %}{% endfor %}`, "the word 'recursive'", "a macro that calls itself"},
		{`{% include 'x' %}`, "the tag 'include'", "put all of it into one file"},
		{`{% block a %}{% endblock %}`, "the tag 'block'", "put all of it into one file"},
		{`{% with a=1 %}{% endwith %}`, "the tag 'with'", "{% set ... %}"},
		{`{% print s %}`, "the tag 'print'", "{{ ... }}"},
	}
	vars := contextVars(t)
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) {
			got, err := render("a\n"+tt.template, vars)
			var placed *Error
			if !errors.As(err, &placed) || placed.Line != 2 {
				t.Fatalf("error %v, want one of line 2; rendered %q", err, got)
			}
			want := "tune does not render " + tt.what + " of Jinja"
			if msg := err.Error(); !strings.Contains(msg, want) || !strings.Contains(msg, tt.remedy) {
				t.Errorf("error %q, want one with %q and %q", msg, want, tt.remedy)
			}
		})
	}
}

func TestRaisedMessage(t *testing.T) {
	_, err := render(`{{ raise_exception("no " ~ "system") }}`, nil)
	if raised, ok := errors.AsType[Raised](err); !ok || raised != "no system" {
		t.Errorf("error %v, want Raised no system", err)
	}
}

// TestHostileTemplatesAreStopped: no template takes more than its share of time, memory
// or stack, whatever it asks for.
func TestHostileTemplatesAreStopped(t *testing.T) {
	doubling := `{% set ns = namespace(x=START) %}{% for i in range(100) %}{% set ns.x = STEP %}{% endfor %}`
	double := func(start, step string) string {
		return strings.NewReplacer("START", start, "STEP", step).Replace(doubling)
	}
	tests := map[string]struct {
		template string
		want     error
	}{
		"a long range":             {`{{ range(1000000000000)|list }}`, nil},
		"a long string":            {`{{ 'a' * 1000000000000 }}`, errBytes},
		"a doubled string":         {double("'ab'", "ns.x ~ ns.x"), errBytes},
		"a doubled list":           {double("[1]", "ns.x + ns.x"), errBytes},
		"a string of replacements": {double("'aa'", "ns.x.replace('a', ns.x)"), errBytes},
		"a large product":          {double("2", "ns.x * ns.x"), errTooLarge},
		"a long join":              {`{{ range(100000)|join('a' * 1000000) }}`, errBytes},
		"a deep indent":            {`{{ 'a\nb'|indent(1000000000000) }}`, errBytes},
		"a value of many copies":   {double("[1]", "[ns.x, ns.x]") + `{{ ns.x }}`, errSteps},
		"JSON of many copies":      {double("[1]", "[ns.x, ns.x]") + `{{ ns.x|tojson }}`, errSteps},
		"equality of many copies": {double("[1]", "[ns.x, ns.x]") + `{% set a = ns.x %}` + double("[1]", "[ns.x, ns.x]") +
			`{{ ns.x == a }}`, errSteps},
		"a macro that calls itself": {`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`, errDepth},
		"a loop of loops": {strings.Repeat(`{% for i in range(100000) %}`, 3) + strings.Repeat(`{% endfor %}`, 3),
			errSteps},
		"open brackets":        {`{{ ` + strings.Repeat("(", 100000), nil},
		"open blocks":          {strings.Repeat("{% if 1 %}", 100000), nil},
		"a chain of operators": {`{{ 1` + strings.Repeat(" + 1", 100000) + ` }}`, errDepth},
		"a chain of not":       {`{{ ` + strings.Repeat("not ", 100000) + `1 }}`, nil},
		"a chain of signs":     {`{{ ` + strings.Repeat("-", 100000) + `1 }}`, nil},
		"a nested target":      {`{% set ` + strings.Repeat("(", 100000), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := render(tt.template, nil)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %.200v, want %v", err, tt.want)
			}
		})
	}
}

func TestRenderRefusesWhatIsNoValue(t *testing.T) {
	if _, err := render(`{{ x }}`, map[string]any{"x": time.Second.String}); err == nil {
		t.Error("a Go function was taken for a value")
	}
	if _, err := render(`{{ x }}`, map[string]any{"x": []any{map[int]int{1: 2}}}); err == nil {
		t.Error("a map of other types was taken for a value")
	}
}

func TestGoValues(t *testing.T) {
	vars := map[string]any{"x": map[string]any{"b": []any{"q"}, "a": 1, "c": 0.5, "d": json.Number("2")}}
	check(t, `{{ x }}`, vars, `{'a': 1, 'b': ['q'], 'c': 0.5, 'd': 2}`, false)
}

func TestGenerations(t *testing.T) {
	const text = `<{% for m in ['a', 'é'] %}[{% generation %}{{ m }}!{% endgeneration %}]{% endfor %}>`
	parsed, err := Parse("template", text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := parsed.Render(nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range out.Generations {
		got = append(got, out.Text[g.Start:g.End])
	}
	if want := "a!|é!"; !parsed.HasGenerations() || strings.Join(got, "|") != want || out.Hidden {
		t.Errorf("generations %q of %q, want %s", got, out.Text, want)
	}

	parsed, err = Parse("template", `{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}`)
	if err != nil {
		t.Fatal(err)
	}
	if out, err = parsed.Render(nil, Options{}); err != nil || !out.Hidden || len(out.Generations) > 0 {
		t.Errorf("a generation inside a set block: %+v, %v; want it hidden", out, err)
	}
}
