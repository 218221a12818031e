// Package jinja renders chat templates: a small interpreter of what the templates of
// published models use of the Jinja2 language, under the settings that Hugging Face's
// transformers renders them with.
//
// What it renders, it is to render to the byte as Python's jinja2 3.1 does with trim_blocks,
// lstrip_blocks, the loop controls and the immutable sandbox, and with transformers' own
// additions: its filter tojson, raise_exception, strftime_now and the generation block.
// Values are Python's: dicts keep their order, strings count code points, and True, None
// and 1.0 print as Python prints them. A model is trained on the text that comes out: one
// blank more or a key elsewhere is another text.
//
// # What it renders
//
// Models whose templates use a feature stand after it; one without is used by most.
//
//	tags      for, if, set; else after for; {%- -%}, {%+ +%}, {# #}
//	          for with if: Mistral, Qwen3-Coder      for key, value: Llama 3, GLM, Qwen3-Coder, Hermes
//	          macro: gpt-oss, GLM-4.6, Qwen3-Coder, Cohere, Jamba, Kimi-K2, LFM2.5, Hermes
//	          call: MiniCPM3     set ... endset: Hammer     generation: SmolLM3, LFM2.5
//	          break, continue: Cohere Command A, Kimi-K2
//	loop      first, last, index, index0; revindex, revindex0, length
//	          previtem, nextitem: Qwen3-Coder, Hermes
//	operators + - * / // %, ~ (Qwen, GLM-5), == != < <= > >=, in, not in, and, or, not, a if b else c,
//	          calls, a.b, a[b]     a[b:c]: Llama 3, Cohere     a[::-1]: Qwen3     f(*list): Jamba
//	functions namespace: Qwen, GLM, DeepSeek, Mistral, Cohere      raise_exception: Mistral, Gemma, Llama
//	          strftime_now: Llama 3.2, SmolLM3, gpt-oss      range: Jamba, Kimi-K2      dict
//	filters   trim, length, count, list, tojson with its arguments (Llama 3, GLM, Granite, Kimi-K2)
//	          items: Llama 3.1, Hermes      string: GLM, Mistral      join: Llama 3.1, gpt-oss
//	          selectattr, rejectattr: Mistral, Llama Guard      reject: Llama 3.1      map: Jamba, Gemma 4
//	          dictsort, default, d: Gemma 4, Kimi-K3      safe: Qwen3-Coder      replace: GigaChat
//	          upper, lower, title, indent, int: Cohere, Ling, Jamba      last: PiVoT
//	          likewise: abs, capitalize, first, float, reverse, select, sort, unique
//	tests     defined, undefined, none, string, mapping, iterable, sequence, number, boolean, true, false
//	          likewise: integer, float, callable, odd, even, divisibleby, lower, upper, in, eq and its kind
//	methods   strip, lstrip, rstrip, split: Qwen, GLM, DeepSeek      startswith, endswith: Qwen3, GLM
//	          title: OpenChat      replace: SmolLM3      items: GLM, Mistral      get, keys, values: Kimi-K2
//	          likewise: capitalize, join, lower, upper
//
// "Likewise" is what no template at hand uses but a new one may any day: it is of the same
// kind, other renderers of chat templates have it, and it costs a line or few.
//
// The rest of Jinja is for web pages: formatting of numbers, groups, word wrap, templates
// that include others. What is left out is listed in leftout.go, and a template that uses
// it gets an error with the name, the line and what to write instead. Where Python would go on
// with a value in a way that no template needs, such as adding to text that went through safe,
// comparing lists by < or printing a namespace, there is an error as well. One difference is known
// that is no error: letters change case one by one, so that upper leaves "ß", which Python makes "SS".
//
// # Why not a library
//
// On the proxy of Go modules there are three, tried with 55 templates of llama.cpp on four
// conversations each, against Python's renderings: gonja v2.9.1 agreed on 163 of 210 and
// had errors on 42; minijinja-go v2.24.0 agreed on 125 and has no way to add the methods of
// strings that Qwen3 calls; pongo2 v6 reads Django's syntax and none of the 55. All of them
// lose the order of keys in a Go map, which is part of the text that tojson writes.
//
// # How
//
// Templates come with models, so they are not trusted. A template can compute, but only
// so many steps and so many bytes (see limits.go), and reach nothing besides its
// variables; what is wrong with one is an error with line and column, never a panic.
//
// The way of a template: lexer.go cuts it into tokens, of which parser.go, statements.go,
// expressions.go and operands.go make functions, one for each statement and expression. These
// run over the values of value.go, within the limits of limits.go. What templates call by name
// is in tables: filters.go, tests.go, globals.go, strings.go and attributes.go.
package jinja
