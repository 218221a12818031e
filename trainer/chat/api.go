package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// apiRoles are those of messages.
var apiRoles = []string{"system", "user", "assistant", "tool"}

// FromAPI reads messages of OpenAI's API and gives them content that is a text, of the parts
// that the API has, or null beside calls of tools. An error says what they have that is not
// taken, and where. Fit gives calls the form of a template.
func FromAPI(list []json.RawMessage) ([]Message, error) {
	if len(list) == 0 {
		return nil, errors.New("messages is empty: say what to answer")
	}
	messages := make([]Message, len(list))
	for i := range messages {
		m := &messages[i]
		if err := m.UnmarshalJSON(list[i]); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		if m.Role == "developer" { // the newer name
			m.Role = "system"
		}
		if !slices.Contains(apiRoles, m.Role) {
			return nil, fmt.Errorf("messages[%d].role is %q; it takes %s", i, m.Role, strings.Join(apiRoles, ", "))
		}
		if err := m.flatten(); err != nil {
			return nil, fmt.Errorf("messages[%d].%w", i, err)
		}
	}
	return messages, nil
}

// flatten makes a text of the content, and looks at calls.
func (m *Message) flatten() error {
	calls, _ := m.ToolCalls.([]any)
	if m.ToolCalls != nil && (len(calls) == 0 || m.Role != "assistant") {
		return errors.New("tool_calls: must be a list of calls, of the assistant")
	}
	for _, call := range calls {
		object, _ := call.(*Object)
		function, _ := object.Get("function")
		if _, ok := function.(*Object); !ok {
			return errors.New("tool_calls: each must have a function with name and arguments")
		}
	}
	content, ok := m.Extra.Get("content")
	if !ok || content == nil && calls != nil {
		return nil
	}
	m.Extra = without(m.Extra, "content")
	var err error
	m.Content, err = joinParts(content)
	return err
}

// joinParts returns the text of a list of parts, one right after the other: so chat templates write such a list, and
// so package format reads it.
func joinParts(content any) (string, error) {
	parts, _ := content.([]any)
	if len(parts) == 0 {
		return "", errors.New("content: must be a text, or a list of parts that are")
	}
	var texts []string
	for _, part := range parts {
		object, _ := part.(*Object)
		kind, _ := object.Get("type")
		text, _ := object.Get("text")
		s, ok := text.(string)
		if kind != "text" || !ok {
			return "", errors.New("content: has a part that is no text, and no other is taken")
		}
		texts = append(texts, s)
	}
	return strings.Join(texts, ""), nil
}

// ToolsFromAPI reads what the API calls tools: functions that the model may call. Nothing,
// null and an empty list are none.
func ToolsFromAPI(data []byte) ([]any, error) {
	if len(data) == 0 {
		return nil, nil
	}
	v, err := ParseJSON(data)
	list, ok := v.([]any)
	if err != nil || !ok && v != nil {
		return nil, errors.New("tools must be a list of functions")
	}
	for i, tool := range list {
		object, _ := tool.(*Object)
		kind, _ := object.Get("type")
		function, _ := object.Get("function")
		f, _ := function.(*Object)
		name, _ := f.Get("name")
		if s, _ := name.(string); kind != "function" || s == "" {
			return nil, fmt.Errorf(`tools[%d] must be {"type": "function", "function": {"name": ...}}`, i)
		}
	}
	return list, nil
}

// ErrNoTools is returned by Whole for a template that does not write tools.
var ErrNoTools = errors.New("the model's chat template does not write tools: leave them out")

// Whole reports what the template leaves out without a word, of what an answer would depend
// on: tools, calls, and what they return. The messages are those of FromAPI, and the text is
// what the template makes of them, with its generation prompt. However long the
// conversation is, it is rendered at most twice.
func (t *Template) Whole(c Conversation, text string) error {
	if len(c.Tools) > 0 {
		without := c
		without.Tools = nil
		if other, err := t.Render(without, true); err == nil && other == text {
			return ErrNoTools
		}
	}
	marked, marks := withMarks(c)
	if marks == 0 {
		return nil
	}
	text, err := t.Render(marked, true)
	if err != nil {
		return nil // it is particular about what stands there, so that it looks at it
	}
	written := map[string]bool{}
	for _, m := range callMark.FindAllString(text, -1) {
		written[m] = true
	}
	if len(written) < marks {
		return errors.New("the model's chat template does not write all calls of tools and all that they return: leave " +
			"them out")
	}
	return nil
}

var callMark = regexp.MustCompile(`mark_\d+_`)

// withMarks returns a conversation with marks, each another, in place of the names of calls and
// of what tools return, and how many there are.
func withMarks(c Conversation) (_ Conversation, marks int) {
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
		m.mapCalls(func(function *Object) *Object { return with(function, "name", next()) })
	}
	return c, marks
}

// mapCalls gives the message other calls.
func (m *Message) mapCalls(to func(function *Object) *Object) {
	calls, ok := m.ToolCalls.([]any)
	if !ok {
		return
	}
	calls = slices.Clone(calls)
	for i, call := range calls {
		object, _ := call.(*Object)
		v, _ := object.Get("function")
		if function, ok := v.(*Object); ok { // others FromAPI refuses
			calls[i] = with(object, "function", to(function))
		}
	}
	m.ToolCalls = calls
}

// with returns a copy of an object with another value.
func with(o *Object, key string, v any) *Object {
	changed := new(Object)
	for k, old := range o.All() {
		changed.Set(k.(string), old)
	}
	changed.Set(key, v)
	return changed
}

// without returns a copy of an object without a key.
func without(o *Object, key string) *Object {
	rest := new(Object)
	for k, v := range o.All() {
		if k != key {
			rest.Set(k.(string), v)
		}
	}
	return rest
}
