package chat

import (
	"errors"

	"github.com/seed98097648/tune/internal/jinja"
)

// Object is a JSON object whose keys keep their order: a template that prints its tools
// prints them as they were written. Build one with Set, or read one with ParseJSON.
type Object = jinja.Dict

// ParseJSON reads one JSON value: nil, bool, int64, float64, string, []any or *Object
// with its keys in order. Numbers are read as Python reads them, so that 1 and 1.0 stay
// different; an integer that int64 cannot hold keeps its digits.
func ParseJSON(data []byte) (any, error) { return jinja.ParseJSON(data) }

// Message is one turn of a conversation.
type Message struct {
	Role    string // system, user, assistant, tool, or what else the template knows
	Content string

	// ToolCalls is what the assistant calls, as the template expects it (usually the
	// form of OpenAI's API): values of ParseJSON. Nil means that there are none.
	ToolCalls any

	// Extra holds further fields that the template may read, such as name,
	// tool_call_id or reasoning_content; nil is none. A "content" here stands in for
	// Content: that is how null or a list of parts reaches the template.
	Extra *Object
}

// UnmarshalJSON reads a message of OpenAI's form: role, content, tool_calls, and
// whatever else the row has. Content that is not there is null.
func (m *Message) UnmarshalJSON(data []byte) error {
	value, err := ParseJSON(data)
	if err != nil {
		return err
	}
	object, ok := value.(*Object)
	if !ok {
		return errors.New("a message must be an object with role and content")
	}
	*m = Message{}
	for key, v := range object.All() {
		if err := m.set(key.(string), v); err != nil {
			return err
		}
	}
	if m.Role == "" {
		return errors.New("role: a message must say who speaks, such as user or assistant")
	}
	if _, ok := object.Get("content"); !ok {
		return m.set("content", nil)
	}
	return nil
}

func (m *Message) set(field string, v any) error {
	text, isString := v.(string)
	switch {
	case field == "role" && isString:
		m.Role = text
	case field == "role":
		return errors.New("role: want a string")
	case field == "content" && isString:
		m.Content = text
	case field == "tool_calls":
		m.ToolCalls = v
	default:
		if m.Extra == nil {
			m.Extra = new(Object)
		}
		m.Extra.Set(field, v)
	}
	return nil
}

// object is the message as the template sees it.
func (m *Message) object() *Object {
	o := new(Object)
	o.Set("role", m.Role)
	o.Set("content", m.Content)
	if m.ToolCalls != nil {
		o.Set("tool_calls", m.ToolCalls)
	}
	for key, v := range m.Extra.All() {
		o.Set(key.(string), v)
	}
	return o
}

// Conversation is what a template renders.
type Conversation struct {
	Messages []Message

	// Tools are the descriptions of functions that the assistant may call, as JSON
	// schemas: values of ParseJSON. Nil means that there are none.
	Tools []any

	// Vars are further variables of the template, such as enable_thinking or
	// documents: values of ParseJSON, or Go's int, []any and map[string]any.
	Vars map[string]any
}

// Span is a piece of a rendered conversation.
type Span struct {
	Text  string
	Learn bool // the assistant's own words, to be learned; the rest is only context

	// Message is whose words these are, as an index of the conversation's messages, or -1 where that is not known:
	// of context, and where generation blocks do not say.
	Message int
	// Open says of the last words, after which there is white space at most, that nothing ends them: the template has no
	// token for the end of a turn, and no generation blocks. Those of GLM-4 let a turn end where the next begins.
	Open bool
}
