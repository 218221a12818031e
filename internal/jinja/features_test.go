package jinja

import "testing"

// The wanted texts of this file are what Python's jinja2 3.1.6 rendered in the sandboxed
// environment that transformers makes.

// context is the variables of the tests' templates.
const context = `{"s": "  Hello, World  ", "t": "don't", "u": "日本語é", "l": [3, 1, 2], "d": {"b": 1, "a": [1, 2.5, ` +
	`null, true], "items": "x"}, "n": 5, "f": 2.5, "e": "", "none": null, "users": [{"name": "Zoe", "age": 3, "x": ` +
	`{"y": 1}}, {"name": "adam", "age": 30, "x": {"y": 2}}, {"name": "Bob", "age": 3, "x": {"y": 3}}], "tree": ` +
	`[{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}], "html": "<a href='x'>&\"</a>", ` +
	`"big": 123456789012345678901234567890}`

// rendering is a template and what it renders.
type rendering struct{ template, want string }

func checkAll(t *testing.T, tests []rendering) {
	t.Helper()
	vars := contextVars(t)
	for _, tt := range tests {
		t.Run(tt.template, func(t *testing.T) { check(t, tt.template, vars, tt.want, false) })
	}
}

func contextVars(t *testing.T) map[string]any {
	t.Helper()
	d := new(Dict)
	if err := d.UnmarshalJSON([]byte(context)); err != nil {
		t.Fatal(err)
	}
	return variables(d)
}

// TestLiterals: values print as Python prints them.
func TestLiterals(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789.0 }}`,
			`1 1.0 1000.0 1.5e-07 1e+16 123456789.0`},
		{`{{ true }} {{ False }} {{ none }} {{ None }} {{ [1, 'a', "b'c", none] }} {{ (1,) }} {{ () }} {{ (1, 2) }} ` +
			`{{ {'a': 1, 2: [3]} }} {{ {} }}`,
			`True False None None [1, 'a', "b'c", None] (1,) () (1, 2) {'a': 1, 2: [3]} {}`},
		{`{{ 'a\n\t\x41\u00e9\\\'\q\101' }}`,
			"a\n\tAé\\'\\qA"},
		{`{{ 'a' 'b' "c" }}`,
			`abc`},
		{`{{ ['\n', '\x00', 'é', "'", "\"'"] }}`,
			`['\n', '\x00', 'é', "'", '"\'']`},
		{`{{ big }} {{ 12345678901234567890 }}`,
			`123456789012345678901234567890 12345678901234567890`},
		{`{{ {'a': {'b': 1}}}}`,
			`{'a': {'b': 1}}`},
	})
}

// TestOperators: operators have Python's meaning and Jinja's precedence.
func TestOperators(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7.5 // 2 }} ` +
			`{{ -7.5 % 2 }}`,
			`7 3 -4 1 2 3.5 3.0 3.0 0.5`},
		{`{{ 'a' ~ 1 ~ none ~ 2.0 }} {{ 'a' + 'b' * 3 }} {{ [1] + [2] }} ` +
			`{{ 3 * 'x' }} {{ 'x' * -1 }}`,
			`a1None2.0 abbb [1, 2] xxx `},
		{`{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} ` +
			`{{ (1, 2) == [1, 2] }} {{ 1 != 2 }} {{ 'a' == 1 }}`,
			`True False True True False True False`},
		{`{{ 1 in l }} {{ 4 not in l }} {{ 'ell' in s }} {{ 'a' in d }} {{ not 1 in l }} {{ 1 in [] or 'x' }} ` +
			`{{ none in [none] }}`,
			`True True True True False x True`},
		{`{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or '' }} {{ '' or 'x' }} {{ not '' }} {{ not not 1 }} {{ 1 or 2 and 0 }}`,
			`2 0  x True True 1`},
		{`{{ 'y' if true else 'n' }} {{ 'y' if false }}| {{ 'a' if false else 'b' if false else 'c' }} ` +
			`{{ ('a' if false) is undefined }}`,
			`y | c True`},
		{`{{ -1 }} {{ +1 }} {{ --1 }} {{ -n|abs }} {{ (-n)|abs }} {{ true + 1 }} {{ -true }} {{ 1 - -1 }} ` +
			`{{ 10 - 2 - 3 }} {{ 2 * 3 % 4 }}`,
			`-1 1 1 5 5 2 -1 2 5 2`},
	})
}

// TestAttributesAndItems: attributes, items, slices, and what is undefined.
func TestAttributesAndItems(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ d.b }} {{ d['b'] }} {{ d.a.1 }} {{ d.a[1] }} {{ d['a'][0] }} {{ users[0].x.y }} {{ users.0.name }} ` +
			`{{ users[-1].name }}`,
			`1 1 2.5 2.5 1 1 Zoe Bob`},
		{`{{ d.items() }} {{ d['items'] }} {{ d.keys() }} {{ d.values() }} {{ d.get('b') }} {{ d.get('q') }} ` +
			`{{ d.get('q', 'z') }}`,
			`dict_items([('b', 1), ('a', [1, 2.5, None, True]), ('items', 'x')]) x dict_keys(['b', 'a', 'items']) ` +
				`dict_values([1, [1, 2.5, None, True], 'x']) 1 None z`},
		{`{{ d.missing }}| {{ d['missing'] }}| {{ l[9] }}| {{ none.x }}| {{ n.x }}| {{ s.nope }}| {{ l['x'] }}| ` +
			`{{ l.append }}|`,
			`| | | | | | | |`},
		{`{{ d.missing is defined }} {{ d.b is defined }} {{ missing is defined }} {{ missing is undefined }} ` +
			`{{ d.missing|default('q') }} {{ e|default('q') }} {{ e|default('q', true) }} {{ none|d('q') }}`,
			`False True False True q  q None`},
		{`{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-2:] }} {{ 'abcdef'[1:4] }} ` +
			`{{ 'abcdef'[::-2] }} {{ u[0] }} {{ u[-1] }} {{ u[::-1] }} {{ (1, 2, 3)[1:] }} {{ 'abc'[10:] }}| ` +
			`{{ range(10)[2:5]|list }}`,
			`[1, 2] [3, 1] [2, 1, 3] [3, 2] [] [1, 2] bcd fdb 日 é é語本日 (2, 3) | [2, 3, 4]`},
		{`{{ missing }}| {{ missing ~ 'x' }} {{ [missing] }} {{ missing|length }} {{ missing|list }} ` +
			`{{ 'a' in missing }} {{ missing == missing2 }} {{ not missing }} {{ missing is sequence }} ` +
			`{{ missing is iterable }}`,
			`| x [Undefined] 0 [] False True True True True`},
		{`{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{{ ns.a }} {{ ns.b }} {{ ns.c is defined }} ` +
			`{{ ns['a'] }}`,
			`2 x False 2`},
	})
}

// TestStringMethods: the methods of str.
func TestStringMethods(t *testing.T) {
	checkAll(t, []rendering{
		{`[{{ s.strip() }}] [{{ s.lstrip() }}] [{{ s.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [` +
			`{{ 'abcba'.lstrip('ab') }}] [{{ ' a '.strip(none) }}]`,
			`[Hello, World] [Hello, World  ] [  Hello, World] [a] [cba] [a]`},
		{`{{ 'a,b,,c'.split(',') }} {{ 'a b  c'.split() }} {{ ' a b '.split(' ') }} {{ 'a,b,c'.split(',', 1) }} ` +
			`{{ 'a b c d'.split(none, 2) }} {{ 'a b'.split(maxsplit=0) }} {{ ''.split() }} {{ ''.split(',') }} ` +
			`{{ 'abc'.split('</x>')[-1].lstrip('\n') }}`,
			`['a', 'b', '', 'c'] ['a', 'b', 'c'] ['', 'a', 'b', ''] ['a', 'b,c'] ['a', 'b', 'c d'] ['a b'] [] [''] abc`},
		{`{{ 'abc'.startswith('ab') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('bc') }} ` +
			`{{ 'abc'.startswith('') }}`,
			`True True True True`},
		{`{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.replace('', '.') }} ` +
			`{{ 'ABC'.lower() }} {{ 'abc'.upper() }} {{ "they're bill's".title() }} {{ 'hELLO wORLD'.capitalize() }}`,
			`a-b- a-bX .a.b. abc ABC They'Re Bill'S Hello world`},
		{`{{ ', '.join(['a', 'b']) }} {{ '-'.join('abc') }}`,
			`a, b a-b-c`},
	})
}

// TestFilters: the filters of Jinja.
func TestFilters(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ -3|abs }} {{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '3.7'|int }} {{ 3.9|int }} {{ '1.5'|float }} ` +
			`{{ 'x'|float }} {{ none|int }} {{ ' 12 '|int }} {{ true|int }}`,
			`3 42 0 7 3 3 1.5 0.0 0 12 1`},
		{`{{ l|length }} {{ s|count }} {{ d|length }} {{ u|length }} {{ 5|string + 'x' }} {{ l|string }}`,
			`3 16 3 4 5x [3, 1, 2]`},
		{`{{ 'abC'|upper }} {{ 'ABC'|lower }} {{ 'hello world'|title }} {{ "foo-bar (baz) it's"|title }} ` +
			`{{ 'hELLO'|capitalize }} [{{ s|trim }}] {{ 'xax'|trim('x') }} {{ 'aaa'|replace('a', 'b', 2) }} ` +
			`{{ 5|replace(5, 6) }}`,
			`ABC abc Hello World Foo-Bar (Baz) It's Hello [Hello, World] a bba 6`},
		{`{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb\n\nc'|indent(2, true) }}| {{ 'a\n\nb'|indent(2, blank=true) }}| ` +
			`{{ 'a\nb'|indent('> ') }}`,
			"a\n    b\n\n    c|   a\n  b\n\n  c| a\n  \n  b| a\n> b"},
		{`{{ 'a\r\nb\rc\x0bd\u2028e\x85\x1cf\r\n'|indent(1) }}|{{ nope is callable }} {{ d.nope is callable }}`,
			"a\n b\n c\n d\n e\n\n f\n|True True"},
		{`{{ 'a\r'|indent }}|{{ 'a\r\r'|indent(1, true, true) }}|{{ '\r'|indent(1, true) }}|`, "a| a\n | |"},
		{`{{ html|safe }} {{ html|safe|safe }} {{ '<b>' ~ html|safe }} {{ html|safe == html }} {{ html|safe|length }} ` +
			`{{ ''|safe or 'q' }} {{ html|safe is string }}`,
			`<a href='x'>&"</a> <a href='x'>&"</a> <b><a href='x'>&"</a> True 18 q True`},
		{`{{ l|first }} {{ l|last }} {{ []|first }}| {{ 'abc'|first }} {{ l|list }} {{ 'ab'|list }} {{ d|list }} ` +
			`{{ l|join }} {{ l|join('-') }} {{ users|join(', ', attribute='name') }} {{ l|reverse|list }} ` +
			`{{ 'abc'|reverse }} {{ range(3)|last }}`,
			`3 2 | a [3, 1, 2] ['a', 'b'] ['b', 'a', 'items'] 312 3-1-2 Zoe, adam, Bob [2, 1, 3] cba 2`},
		{`{{ l|sort }} {{ l|sort(reverse=true) }} {{ ['b', 'A', 'c']|sort }} ` +
			`{{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ users|sort(attribute='age')|map(attribute='name')|list }} ` +
			`{{ [none, none]|sort }} {{ ['a', 'A', 'b', 'a']|unique|list }}`,
			`[1, 2, 3] [3, 2, 1] ['A', 'b', 'c'] ['A', 'b', 'c'] ['Zoe', 'Bob', 'adam'] [None, None] ['a', 'b']`},
		{`{{ l|map('string')|list }} {{ users|map(attribute='x.y')|list }} ` +
			`{{ users|map(attribute='q', default='-')|list }} {{ ['a', 'b']|map('upper')|join }} ` +
			`{{ ['a1', 'b1']|map('replace', '1', '2')|list }} {{ l|select('odd')|list }} {{ l|reject('>', 1)|list }} ` +
			`{{ [0, 1, '', 'x']|select|list }} {{ users|selectattr('age', 'equalto', 3)|map(attribute='name')|list }} ` +
			`{{ users|rejectattr('age', 'eq', 3)|map(attribute='name')|list }} ` +
			`{{ users|selectattr('q', 'defined')|list }} {{ users|selectattr('x.y', 'in', [1, 2])|list|length }} ` +
			`{{ users|selectattr('name')|list|length }}`,
			`['3', '1', '2'] [1, 2, 3] ['-', '-', '-'] AB ['a2', 'b2'] [3, 1] [1] [1, 'x'] ['Zoe', 'Bob'] ['adam'] [] 2 3`},
		{`{{ none|selectattr('x')|list }} {{ none|map(attribute='a')|join(',') }} {{ 0|select|list }} ` +
			`{{ none|reject('odd')|list }} {{ ''|map('upper')|list }} {{ 12345678901234567890|float }} ` +
			`{{ nosuch|rejectattr('x')|list }}`,
			`[]  [] [] [] 1.2345678901234567e+19 []`},
		{`{{ d|items|list }} {{ d|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(by='value') }} ` +
			`{{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}`,
			`[('b', 1), ('a', [1, 2.5, None, True]), ('items', 'x')] [('a', [1, 2.5, None, True]), ('b', 1), ('items', ` +
				`'x')] [('b', 1), ('A', 2)] [('A', 2), ('b', 1)] [('b', 1), ('a', 2)]`},
		{`{% set g = l|map('string') %}{{ g|list }}{{ g|list }}`,
			`['3', '1', '2'][]`},
		{`{% filter upper|replace('A', 'x') %}abc{{ n }}{% endfilter %}`,
			`xBC5`},
	})
}

// TestToJSON: the filter tojson of transformers.
func TestToJSON(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ d|tojson }} {{ u|tojson }} {{ html|tojson }} {{ 1.0|tojson }} {{ none|tojson }} {{ (1, 2)|tojson }} ` +
			`{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ '\x01\x7f\n\t\x08\x0c"\\/'|tojson }} {{ big|tojson }} ` +
			`{{ 1e-7|tojson }}`,
			"{\"b\": 1, \"a\": [1, 2.5, null, true], \"items\": \"x\"} \"日本語é\" \"<a href='x'>&\\\"</a>\" 1.0 null [1, 2] " +
				"{\"1\": 4, \"null\": 3, \"1.5\": 5} \"\\u0001\u007f\\n\\t\\b\\f\\\"\\\\/\" 123456789012345678901234567890 1e-07"},
		{`{{ d|tojson(indent=2) }}`,
			"{\n  \"b\": 1,\n  \"a\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \"items\": \"x\"\n}"},
		{`{{ {'a': [], 'b': {}}|tojson(indent=4) }}`,
			"{\n    \"a\": [],\n    \"b\": {}\n}"},
		{`{{ d|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} ` +
			`{{ '😀'|tojson(true) }} {{ l|tojson(indent=0) }}`,
			"{\"b\":1,\"a\":[1,2.5,null,true],\"items\":\"x\"} {\"a\": [1, 2.5, null, true], \"b\": 1, \"items\": \"x\"} " +
				"\"\\u65e5\\u672c\\u8a9e\\u00e9\" \"\\ud83d\\ude00\" [\n3,\n1,\n2\n]"},
	})
}

// TestTests: the tests after is.
func TestTests(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ n is number }} {{ true is number }} {{ f is float }} {{ n is integer }} {{ true is integer }} ` +
			`{{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} ` +
			`{{ s is string }} {{ l is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} ` +
			`{{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ l is iterable }} {{ n is iterable }} ` +
			`{{ none is none }} {{ n is none }} {{ s is not none }} {{ range is callable }} {{ n is callable }} ` +
			`{{ big is integer }}`,
			`True True True True False True False True False True True False True False True True True False True False ` +
				`True False True True False True`},
		{`{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 'a' is in ['a'] }} ` +
			`{{ 'a' is in 'abc' }} {{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is gt 1 }} ` +
			`{{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }}`,
			`True True True False True True True False True True True True False True True False`},
		{`{{ 1 is odd and 2 is even }} {{ not 1 is even }} {{ 1 is not even }} {{ n is defined and n > 3 }} ` +
			`{{ 'x' if q is defined else 'y' }} {{ (1 is odd) is true }} {{ n|string is string }} ` +
			`{{ 5 is not odd or true }} {{ q is not defined }}`,
			`True True True True y True True True True`},
	})
}

// TestLoops: for, its variable loop, break and continue, and the scope of set.
func TestLoops(t *testing.T) {
	checkAll(t, []rendering{
		{`{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/` +
			`{{ loop.last }}/{{ loop.length }}/{{ loop.previtem }}/{{ loop.nextitem }};{% endfor %}`,
			`1/0/3/2/True/False/3//1;2/1/2/1/False/False/3/3/2;3/2/1/0/False/True/3/1/;`},
		{`{% for x in l if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}|{% for x in [] %}a{% else %}empty{% endfor %}|` +
			`{% for x in l if x > 9 %}a{% else %}none{% endfor %}`,
			`3222|empty|none`},
		{`{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}` +
			`{% endfor %}|{% for i in range(3) %}{% continue %}{% else %}else{% endfor %}|{% for i in range(3) %}` +
			`{% if i == 1 %}{% break %}{% endif %}{{ i }}{% else %}else{% endfor %}`,
			`0134|else|0`},
		{`{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}|{% for i in l %}{{ y }}{% set y = i %}` +
			`{% endfor %}{{ y }}|{% if true %}{% set z = 3 %}{% endif %}{{ z }}`,
			`3121||3`},
		{`{% set ns = namespace(t=0) %}{% for i in l %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}{% for a in l %}` +
			`{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}`,
			`61231;1232;1233;`},
		{`{% for x in missing %}a{% else %}b{% endfor %}{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}{{ range(0) }}` +
			`{{ range(1, 5, 2) }}{{ range(5)|length }}{{ 3 in range(5) }}{{ range(5)[-1] }}`,
			`b321range(0, 0)range(1, 5, 2)5True4`},
		{`{% for i in l -%} {{ i }} {%- endfor %}`,
			`312`},
		{`{% for i in l %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}{% for i in (1, 2) %}{{ i }}{% endfor %}` +
			`{% for m in l[1:] + [9] %}{{ m }}{% endfor %}`,
			`3, 1, 212129`},
	})
}

// TestMacros: macros, call, set and with blocks.
func TestMacros(t *testing.T) {
	checkAll(t, []rendering{
		{`{% macro f(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c='z') }}` +
			`{{ f(b=1, a=2) }}{{ f() }}`,
			`[12x][13x][12z][21x][2x]`},
		{`{% macro f(a, b=0, z=0) %}{{ a }}{{ b }}{{ z }}{% endmacro %}{{ f(1, z=3) }}{{ f(*[1, 2]) }}`,
			`103120`},
		{`{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in{{ n }}{% endcall %}` +
			`{% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each(l) %}({{ x }})` +
			`{% endcall %}`,
			`<b>in5</b>(3)(1)(2)`},
		{`{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * (fact(n - 1)|int) }}{% endif %}{% endmacro %}{{ fact(10) }}` +
			`{% macro d(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ d(1) }}{{ d(1, 2) }}`,
			`36288001112`},
		{`{% set q = 1 %}{% macro show() %}{{ q }}{% set q = 5 %}{% endmacro %}{{ show() }}{{ q }}{% set q = 2 %}` +
			`{{ show() }}{% macro late() %}{{ later }}{% endmacro %}{% set later = 7 %}{{ late() }}`,
			`1127`},
		{`{% set b %}x{{ n }}y{% endset %}{{ b }}{{ b|length }}{% set c | upper %}abc{% endset %}{{ c }}{{ b }}` +
			`{% set a, b = 1, 2 %}{{ b }}{{ a }}`,
			`x5y3ABCx5y21`},
		{`{{ dict(a=1, b=2) }}{{ dict({'a': 1}, b=2) }}{{ namespace({'a': 1}).a }}`,
			`{'a': 1, 'b': 2}{'a': 1, 'b': 2}1`},
	})
}

// TestWhiteSpace: trim_blocks, lstrip_blocks, the signs - and +, comments.
func TestWhiteSpace(t *testing.T) {
	checkAll(t, []rendering{
		{"a\n  {% if true %}\n  b\n  {% endif %}\nc",
			"a\n  b\nc"},
		{`a  {%- if true -%}  b  {%- endif -%}  c`,
			`abc`},
		{"a\n  {%+ if true %}\n  b\n  {% endif +%}\nc",
			"a\n    b\n\nc"},
		{"x {# c #} y\n  {# line #}\nz",
			"x  y\nz"},
		{"  {{ n }}  \n  {{- n -}}  \n e",
			`  55e`},
		{"a\r\nb\rc\n",
			"a\nb\nc"},
		{"\n\n{% set x = 1 %}\n\n{{ x }}\n\n",
			"\n\n\n1\n"},
		{"{%- for i in l %}\n  {{- i }}\n{%- endfor %}\n",
			`312`},
		{`a {#- c -#} b`,
			`ab`},
		{"{% if true %}\t\n{% endif %}x\n\n",
			"\t\nx\n"},
		{`{{ '}}' }}{{ '{%' }}{# {{ #}`,
			`}}{%`},
		{"{{ n }}\n{{ n }}\n",
			"5\n5"},
		{"{#- a -#}\n b",
			`b`},
		{`  {%- set a = 1 %}  {{ a }}`,
			`  1`},
		{"{% if true -%}\n   x\n{%- else -%} y {%- endif %}z",
			`xz`},
		{`{{"a"}}{{-"b"-}} c`,
			`abc`},
		{`{{- n }} {{+ n }}`,
			`5 5`},
	})
}

// TestClock: strftime_now with the clock that was given.
func TestClock(t *testing.T) {
	checkAll(t, []rendering{
		{`{{ strftime_now('%d %b %Y|%Y-%m-%d|%H:%M:%S|%j|%A %B|%-d|%e|%y|%I %p|%%|%a|%F|%T') }}`,
			`10 Jul 2025|2025-07-10|12:00:00|191|Thursday July|10|10|25|12 PM|%|Thu|2025-07-10|12:00:00`},
	})
}
