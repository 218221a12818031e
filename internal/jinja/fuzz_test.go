package jinja

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
)

// FuzzTemplate: whatever a template holds, reading and running it ends, without a panic.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"a {{ b }} {%- if c -%} d {%- endif %}\n{# e #}", "{% for a, b in c if d %}{{ loop.index }}{% else %}{% endfor %}",
		"{% macro m(a, b=1) %}{{ caller(a) }}{% endmacro %}{% call(x) m(*l) %}{{ x }}{% endcall %}",
		"{{ s[::-1] ~ l[1:] ~ d.a.b['c'] }}", "{{ '%s' % s }}{{ '{}'.format(s) }}{{ l|groupby('x') }}",
		"{{ l|sort|map('string')|join(',')|indent(2) }}",
		"{{ d|tojson(indent=2, sort_keys=true) }}", "{{ 'a' 'b' \"\\x41\\u00e9\" }}",
		"{{ -1 * 2 // 3 % 4 if not x is defined and 1 < 2 <= 3 else none }}",
		"{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{% set x | upper %}y{% endset %}",
		"{% generation %}{{ strftime_now('%Y') }}{% endgeneration %}",
	} {
		f.Add(seed)
	}
	d := new(Dict)
	if err := d.UnmarshalJSON([]byte(context)); err != nil {
		f.Fatal(err)
	}
	vars := variables(d)
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		out, err := parsed.Render(vars, Options{Now: fixedNow})
		if err != nil {
			return
		}
		for _, g := range out.Generations {
			if g.Start > g.End || g.End > len(out.Text) {
				t.Errorf("generation %v of a text of %d bytes", g, len(out.Text))
			}
		}
	})
}

// FuzzJSON: whatever is read as JSON can be written, and reads as the same.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"b":[1,1.0,1e-7],"a":null}`, `[true,"\ud800é",123456789012345678901234567890]`, `{`,
		`-0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON(data)
		if err != nil {
			return
		}
		text, err := compactJSON(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseJSON(text)
		if err != nil {
			return // infinite, which Python writes and JSON has not
		}
		if !newRun(Options{}).equal(v, again) {
			t.Errorf("%s was written as %s", data, text)
		}
	})
}

// BenchmarkRender renders a conversation with a real template.
func BenchmarkRender(b *testing.B) {
	file := filepath.Join(testdata.Shared(b, "data", "templates", "jinja"), "Qwen-Qwen3-0.6B.jinja")
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	parsed, err := Parse(file, string(text))
	if err != nil {
		b.Fatal(err)
	}
	messages := []any{}
	for range 10 {
		messages = append(messages, map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant",
			"content": "Hello!"})
	}
	for b.Loop() {
		if _, err := parsed.Render(map[string]any{"messages": messages}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
