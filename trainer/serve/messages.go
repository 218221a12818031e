package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/chat"
)

// prompt returns a conversation, and its text up to where the answer begins.
func (q *chatRequest) prompt(m *Model) (c chat.Conversation, text string, err error) {
	if m.Template == nil {
		return c, "", badRequest("model", "the model %q has no chat template: ask it by /v1/completions, or start "+
			"the server with --template", m.Name)
	}
	if c, err = q.conversation(); err != nil {
		return c, "", err
	}
	if text, err = m.Template.Render(c, true); err != nil {
		return c, "", badRequest("messages", "%v", err)
	}
	return c, text, nil
}

// whole reports what a template leaves out without a word, of what an answer would depend on. However long the
// conversation is, it is rendered at most twice, and not for a client that has gone.
func whole(ctx context.Context, t *chat.Template, c chat.Conversation, text string) error {
	if len(c.Tools) > 0 {
		without := c
		without.Tools = nil
		if other, err := t.Render(without, true); err == nil && other == text {
			return badRequest("tools", "the model's chat template does not write tools: leave them out")
		}
	}
	marked, marks := mark(c)
	if marks == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return errGone
	}
	text, err := t.Render(marked, true)
	if err != nil {
		return nil // it is particular about what stands there, so that it looks at it
	}
	written := map[string]bool{}
	for _, m := range markPattern.FindAllString(text, -1) {
		written[m] = true
	}
	if len(written) < marks {
		return badRequest("messages", "the model's chat template does not write all calls of tools and all that they "+
			"return: leave them out")
	}
	return nil
}

var markPattern = regexp.MustCompile(`mark_\d+_`)

// mark returns a conversation with marks, each another, in place of the names of calls and of what tools return, and
// how many there are.
func mark(c chat.Conversation) (_ chat.Conversation, marks int) {
	next := func() string {
		marks++
		return fmt.Sprintf("mark_%d_", marks)
	}
	c.Messages = slices.Clone(c.Messages)
	for i := range c.Messages {
		m := &c.Messages[i]
		if m.Role == "tool" {
			m.Content = next()
		}
		calls, _ := m.ToolCalls.([]any)
		calls = slices.Clone(calls)
		for i, call := range calls {
			object := call.(*chat.Object)
			function, _ := object.Get("function")
			calls[i] = with(object, "function", with(function.(*chat.Object), "name", next()))
		}
		if calls != nil {
			m.ToolCalls = calls
		}
	}
	return c, marks
}

// with returns a copy of an object with another value.
func with(o *chat.Object, key string, v any) *chat.Object {
	changed := new(chat.Object)
	for k, old := range o.All() {
		changed.Set(k.(string), old)
	}
	changed.Set(key, v)
	return changed
}

// roles are those of messages.
var roles = []string{"system", "user", "assistant", "tool"}

// conversation returns what the template renders.
func (q *chatRequest) conversation() (chat.Conversation, error) {
	c := chat.Conversation{Vars: map[string]any{}}
	if len(q.Messages) == 0 {
		return c, badRequest("messages", "messages is empty: say what to answer")
	}
	for i, m := range q.Messages {
		if m.Role == "developer" { // the newer name
			m.Role = "system"
		}
		if !slices.Contains(roles, m.Role) {
			return c, badRequest("messages", "messages[%d].role is %q; it takes %s", i, m.Role, strings.Join(roles, ", "))
		}
		if err := flatten(&m); err != nil {
			return c, badRequest("messages", "messages[%d].%v", i, err)
		}
		c.Messages = append(c.Messages, m)
	}
	for name, v := range q.TemplateArguments.All() {
		c.Vars[name.(string)] = v
	}
	tools, err := q.tools()
	c.Tools = tools
	return c, err
}

// tools returns those that the model may call.
func (q *chatRequest) tools() ([]any, error) {
	if !given(q.Tools) {
		return nil, nil
	}
	v, err := chat.ParseJSON(q.Tools)
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil, badRequest("tools", "tools must be a list of functions")
	}
	for i, tool := range list {
		object, _ := tool.(*chat.Object)
		kind, _ := object.Get("type")
		function, _ := object.Get("function")
		f, _ := function.(*chat.Object)
		if name, _ := f.Get("name"); kind != "function" || name == nil {
			return nil, badRequest("tools", `tools[%d] must be {"type": "function", "function": {"name": ...}}`, i)
		}
	}
	switch string(bytes.TrimSpace(q.ToolChoice)) {
	case "", "null", `"auto"`:
		return list, nil
	case `"none"`:
		return nil, nil
	}
	return nil, badRequest("tool_choice", `tool_choice is "auto" or "none": a model cannot be made to call a tool here`)
}

// flatten gives a message the form that templates are written for: content that is a text, and arguments of calls that
// are objects, of which the API makes a text.
func flatten(m *chat.Message) error {
	if content, ok := m.Extra.Get("content"); ok {
		var err error
		if m.Content, err = flatContent(content, m.ToolCalls != nil); err != nil {
			return err
		}
		extra := new(chat.Object)
		for key, v := range m.Extra.All() {
			if key != "content" {
				extra.Set(key.(string), v)
			}
		}
		m.Extra = extra
	}
	calls, _ := m.ToolCalls.([]any)
	if m.ToolCalls != nil && (len(calls) == 0 || m.Role != "assistant") {
		return errorText("tool_calls: must be a list of calls, of the assistant")
	}
	for _, call := range calls {
		object, _ := call.(*chat.Object)
		v, _ := object.Get("function")
		function, ok := v.(*chat.Object)
		if !ok {
			return errorText("tool_calls: each must have a function with name and arguments")
		}
		arguments, _ := function.Get("arguments")
		if s, ok := arguments.(string); ok && json.Valid([]byte(s)) {
			parsed, err := chat.ParseJSON([]byte(s))
			if err != nil {
				return err
			}
			function.Set("arguments", parsed)
		}
	}
	return nil
}

// flatContent returns the text of content that is none: null, or a list of parts.
func flatContent(content any, calls bool) (string, error) {
	parts, ok := content.([]any)
	if content == nil && calls {
		return "", nil
	}
	if !ok {
		return "", errorText("content: must be a text, or a list of parts that are")
	}
	var texts []string
	for _, part := range parts {
		object, _ := part.(*chat.Object)
		kind, _ := object.Get("type")
		text, _ := object.Get("text")
		s, ok := text.(string)
		if kind != "text" || !ok {
			return "", errorText("content: has a part that is no text, and this server takes no other")
		}
		texts = append(texts, s)
	}
	return strings.Join(texts, "\n"), nil
}

// errorText is an error that is part of another's text.
type errorText string

// Error implements error.
func (e errorText) Error() string { return string(e) }
