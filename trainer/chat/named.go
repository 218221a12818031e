package chat

import (
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// builtins are the built-in templates, one file each.
//
//go:embed builtin/*.jinja
var builtins embed.FS

const (
	builtinDir = "builtin/"
	builtinExt = ".jinja"
)

// Named returns a built-in template, with the special tokens of the model in dir. It is
// for a model without a template of its own, or one to be trained on another. The names
// are LLaMA-Factory's: see Names. The formats are those that the models were published with, which
// differs from LLaMA-Factory's in white space for llama2, llama3 and vicuna. A built-in template cannot
// write tools.
func Named(name, dir string) (*Template, error) {
	source, err := Source(name)
	if err != nil {
		return nil, err
	}
	tokens, err := specialTokens(dir)
	if err != nil {
		return nil, err
	}
	t, err := Parse(name, source, nil)
	if err != nil {
		return nil, err
	}
	t.tokens, t.plain = tokens, true
	// A token that the template writes and the model lacks is better found now than at
	// the first row.
	turns := []Message{{Role: "user"}, {Role: "assistant"}}
	text, err := t.Render(Conversation{Messages: turns}, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %s does not give a token that the chat template %s writes: %w; choose another, such "+
			"as chatml", dir, configFile, name, err)
	}
	for _, m := range mark.FindAllString(text, -1) {
		if !slices.Contains(t.marks, m) {
			t.marks = append(t.marks, m)
		}
	}
	return t, nil
}

// mark is a special token of a built-in template.
var mark = regexp.MustCompile(`<\|[a-z_]+\|>|\[gMASK\]|<sop>`)

// Missing returns the special tokens that a built-in template writes around messages and that
// the tokenizer, whose method encode is, does not have. It would make plain text of them, and
// no answer would end with a token. A model's own template is taken to fit.
func (t *Template) Missing(encode func(text string, addSpecial bool) []int32) []string {
	var missing []string
	for _, m := range t.marks {
		if len(encode(m, false)) != 1 {
			missing = append(missing, m)
		}
	}
	return missing
}

// Source returns the text of a built-in template: what a model that is trained on it keeps
// as its chat_template.jinja.
func Source(name string) (string, error) {
	text, err := builtins.ReadFile(builtinDir + name + builtinExt)
	if err != nil {
		return "", fmt.Errorf("unknown chat template %q; the built-in ones are %s", name, nameList())
	}
	return string(text), nil
}

// Names returns the names of the built-in templates, sorted.
func Names() []string {
	files, err := builtins.ReadDir(strings.TrimSuffix(builtinDir, "/"))
	if err != nil {
		return nil // cannot be: the folder is part of the program
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(f.Name(), builtinExt)
	}
	return names
}

func nameList() string { return strings.Join(Names(), ", ") }

// errPlain refuses what a built-in template would leave out without a word.
var errPlain = errors.New("a built-in chat template cannot write tools, calls of tools or content other than text; " +
	"use a model with a chat template that can")

// plainOnly checks that a conversation has only what a built-in template can write.
func plainOnly(c Conversation) error {
	if len(c.Tools) > 0 {
		return errPlain
	}
	for _, m := range c.Messages {
		calls, isList := m.ToolCalls.([]any)
		none := m.ToolCalls == nil || isList && len(calls) == 0
		if _, ok := m.Extra.Get("content"); ok || !none {
			return errPlain
		}
	}
	return nil
}

// thoughtless checks that no message has thoughts, which a built-in template leaves out: without them a model would
// learn to answer at once. Of what was said before an answer that is written, most templates leave them out.
func thoughtless(c Conversation) error {
	for i, m := range c.Messages {
		if thoughts, _ := m.Extra.Get("reasoning_content"); thoughts != nil && thoughts != "" {
			return fmt.Errorf("message %d: a built-in chat template cannot write thoughts (reasoning_content); "+
				"use a model with a chat template that can, or write them into the content", i+1)
		}
	}
	return nil
}
