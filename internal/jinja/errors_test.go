package jinja

import (
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
		{`{% include 'x' %}`, "needs other templates"},
		{`{# open`, "the comment has no end"},
		{`{% raw %}x`, "has no endraw"},
		{`{{ a`, "the tag has no end; want }}"},
		{`{{ [x]|tojson }}`, "object of type Undefined is not JSON serializable"},
		{`{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}`, "macro 'f' takes not more than 1 argument(s)"},
		{`{% macro f(a) %}{% endmacro %}{{ f(q=2) }}`, "macro 'f' takes no keyword argument 'q'"},
		{`{% macro f(a=1, b) %}{% endmacro %}`, "the parameter b has no default"},
		{`{{ 'a'.replace('a', new='b') }}`, "takes no keyword arguments"},
		{`{{ 'a'.split('') }}`, "empty separator"},
		{`{{ l[::0] }}`, "slice step cannot be zero"},
		{`{{ d[1:] }}`, "'dict' object has no slices"},
		{`{{ {[]: 1} }}`, "unhashable type: 'list'"},
		{`{{ '{}'.format() }}`, "replacement index 0 out of range"},
		{`{{ '%s %s' % ('a',) }}`, "not enough arguments for format string"},
		{`{{ f(a=1, 2) }}`, "arguments in a wrong order"},
		{`{% for a, b in [(1,2,3)] %}{% endfor %}`, "cannot unpack 3 values into 2 names"},
		{`{{ '\x4' }}`, "truncated escape"},
		{`{{ strftime_now('%Q') }}`, "unknown directive %Q"},
		{`{{ 9223372036854775807 + 1 }}`, "too large for an integer"},
	}
	vars := contextVars(t)
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) {
			got, err := render(tt.template, vars)
			if err == nil {
				t.Fatalf("no error; rendered %q", got)
			}
			var placed *Error
			if !errors.As(err, &placed) || placed.Line < 1 || placed.Column < 1 {
				t.Errorf("error %v has no place", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
		})
	}
}

func TestRaisedMessage(t *testing.T) {
	_, err := render(`{{ raise_exception("no " ~ "system") }}`, nil)
	var raised Raised
	if !errors.As(err, &raised) || raised != "no system" {
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
		"a long range":              {`{{ range(10**12)|list }}`, nil},
		"a large power":             {`{{ 10**10**10 }}`, errTooLarge},
		"a long string":             {`{{ 'a' * 10**12 }}`, errBytes},
		"a long list":               {`{{ [1] * 10**12 }}`, errBytes},
		"a doubled string":          {double("'ab'", "ns.x ~ ns.x"), errBytes},
		"a doubled list":            {double("[1]", "ns.x + ns.x"), errBytes},
		"a string of replacements":  {double("'aa'", "ns.x.replace('a', ns.x)"), errBytes},
		"a wide centre":             {`{{ 'a'.center(10**12) }}`, errBytes},
		"a wide filter":             {`{{ 'a'|center(10**12) }}`, errBytes},
		"a wide format":             {`{{ '%999999999999d' % 1 }}`, errBytes},
		"a wide format method":      {`{{ '{:999999999999}'.format(1) }}`, errBytes},
		"a deep indent":             {`{{ 'a\nb'|indent(10**12) }}`, errBytes},
		"a wide batch":              {`{{ [1]|batch(10**12, 0)|list }}`, errBytes},
		"a value of many copies":    {double("[1]", "[ns.x, ns.x]") + `{{ ns.x }}`, errSteps},
		"JSON of many copies":       {double("[1]", "[ns.x, ns.x]") + `{{ ns.x|tojson }}`, errSteps},
		"equality of many copies":   {double("[1]", "[ns.x, ns.x]") + `{% set a = ns.x %}` + double("[1]", "[ns.x, ns.x]") + `{{ ns.x == a }}`, errSteps},
		"a macro that calls itself": {`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`, errDepth},
		"a loop of loops":           {strings.Repeat(`{% for i in range(100000) %}`, 3) + strings.Repeat(`{% endfor %}`, 3), errSteps},
		"a loop that calls itself":  {`{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}`, errDepth},
		"open brackets":             {`{{ ` + strings.Repeat("(", 100000), nil},
		"open blocks":               {strings.Repeat("{% if 1 %}", 100000), nil},
		"a chain of operators":      {`{{ 1` + strings.Repeat(" + 1", 100000) + ` }}`, errDepth},
		"a chain of not":            {`{{ ` + strings.Repeat("not ", 100000) + `1 }}`, nil},
		"a chain of signs":          {`{{ ` + strings.Repeat("-", 100000) + `1 }}`, nil},
		"a nested target":           {`{% set ` + strings.Repeat("(", 100000), nil},
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
	if _, err := render(`{{ x }}`, map[string]any{"x": map[int]int{1: 2}}); err == nil {
		t.Error("a map without string keys was taken for a value")
	}
}

func TestGoValues(t *testing.T) {
	vars := map[string]any{"x": map[string]any{"b": []string{"q"}, "a": int32(1), "c": float32(0.5), "d": uint8(2)}}
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
