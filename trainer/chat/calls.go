package chat

import (
	"slices"
	"strings"
	"sync"
)

// callForm is how a template takes calls of tools.
type callForm struct {
	null bool // content beside them is null where there is none, else ""
	text bool // arguments are a JSON text, as in the API, else an object
}

// What ExampleCall has calls of.
const (
	ExampleName  = "probe_name"
	ExampleValue = "probe_value" // the only argument's
)

// exampleCalls are messages with a call of a tool in an earlier turn and in the last, which templates tell apart.
func exampleCalls() []Message {
	function := with(with(nil, "name", ExampleName), "arguments", with(nil, "probe_key", ExampleValue))
	call := with(with(with(nil, "id", "callprobe"), "type", "function"), "function", function)
	turn := []Message{{Role: "user", Content: "x"}, {Role: "assistant", ToolCalls: []any{call}},
		{Role: "tool", Content: "x", Extra: with(with(nil, "tool_call_id", "callprobe"), "name", ExampleName)}}
	return slices.Concat(turn, []Message{{Role: "assistant", Content: "x"}}, turn[:2])
}

// calls finds out by examples how the template takes calls, and what it writes of them: "" if it does not. Templates
// ask whether the content is null, or fail at that, or write None.
func (t *Template) calls(tools []any, vars map[string]any) (f callForm, written string) {
	c := Conversation{Tools: tools, Vars: vars}
	nones := sync.OnceValue(func() int { // of the template, and of what tools say of themselves
		plain := c
		plain.Messages = []Message{{Role: "user", Content: "x"}}
		text, _ := t.Render(plain, false)
		return strings.Count(text, "None")
	})
	for _, f := range []callForm{{null: true}, {}, {null: true, text: true}, {text: true}} {
		c.Messages = f.of(exampleCalls())
		text, err := t.Render(c, false)
		n := strings.Count(text, "None")
		if err == nil && strings.Count(text, ExampleValue) == 2 && (n == 0 || n <= nones()) {
			return f, text
		}
	}
	return callForm{}, ""
}

// ExampleCall returns a conversation with calls of ExampleName with ExampleValue as the template writes it; "" for one
// that writes no calls.
func (t *Template) ExampleCall() string {
	_, written := t.calls(nil, nil)
	return written
}

// Fit gives calls of tools, in messages with a text or nothing for content, the form that the template takes: content
// that is null or "" where there is none, and arguments that are objects, or the text that the API has.
func (t *Template) Fit(c Conversation) Conversation {
	if slices.ContainsFunc(c.Messages, func(m Message) bool { return m.ToolCalls != nil }) {
		f, _ := t.calls(c.Tools, c.Vars)
		c.Messages = f.of(c.Messages)
	}
	return c
}

// of returns messages in the form.
func (f callForm) of(messages []Message) []Message {
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		if m.ToolCalls != nil {
			if m.Extra = without(m.Extra, "content"); f.null && m.Content == "" {
				m.Extra.Set("content", nil)
			}
		}
		m.mapCalls(func(function *Object) *Object {
			if arguments, ok := function.Get("arguments"); ok {
				return with(function, "arguments", f.arguments(arguments))
			}
			return function
		})
	}
	return messages
}

// arguments returns those of a call. A text that is no JSON stays one.
func (f callForm) arguments(v any) any {
	switch given := v.(type) {
	case string:
		if parsed, err := ParseJSON([]byte(given)); err == nil && !f.text {
			return parsed
		}
	case *Object:
		if text, err := given.MarshalJSON(); err == nil && f.text {
			return string(text)
		}
	}
	return v
}
