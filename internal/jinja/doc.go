// Package jinja renders chat templates: a small interpreter of the Jinja2 language, with
// the settings that Hugging Face's transformers renders chat templates under.
//
// It follows Python's jinja2 3.1 with trim_blocks, lstrip_blocks, the loop controls
// (break and continue), the immutable sandbox, and transformers' own additions: the
// filter tojson, raise_exception, strftime_now and the generation block. Values are
// Python's: dicts keep their order, strings count code points, and True, None and 1.0
// print as Python prints them. A template stands alone: extends, include and import do
// not exist here.
//
// Templates come with models, so they are not trusted. A template can compute, but only
// so many steps and so many bytes (see limits.go), and reach nothing besides its
// variables; what is wrong with one is an error with line and column, never a panic.
//
// The way of a template: lexer.go cuts it into tokens; parser.go and expressions.go make
// the nodes; statements.go and eval.go run them over the values of value.go.
package jinja
