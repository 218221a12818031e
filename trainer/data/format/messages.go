package format

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/records"
)

// roles are the names of roles that are met in the wild.
func roles() map[string]string {
	return map[string]string{
		"human": user, "user": user,
		"gpt": assistant, "assistant": assistant, "chatgpt": assistant, "bard": assistant, "bing": assistant,
		"model":  assistant,
		"system": system, "developer": system,
		"observation": tool, "tool": tool, "function": tool,
		"function_call": call, "tool_call": call,
	}
}

// conversation reads ShareGPT and Messages.
func (l Layout) conversation(r records.Record) (Example, error) {
	column := l.Columns.Messages
	if _, ok := r.Fields[column]; !ok {
		return Example{}, fmt.Errorf("no field %q; it has %q", column, r.Columns())
	}
	list, err := l.list(r, column)
	if err != nil {
		return Example{}, err
	}
	first, err := l.optional(r, l.Columns.System)
	if err != nil {
		return Example{}, err
	}
	e := Example{Chat: &chat.Conversation{Messages: systemMessage(first)}}
	muted := make([]bool, len(e.Chat.Messages))
	learn := false
	for i, v := range list {
		m, mute, err := l.message(v)
		if err != nil {
			return Example{}, fmt.Errorf("field %q: message %d: %w", column, i+1, err)
		}
		if i == 0 && m.Role == system { // it comes before the column
			e.Chat.Messages, muted = nil, nil
		}
		e.Chat.Messages, muted = append(e.Chat.Messages, m), append(muted, mute)
		learn = learn || m.Role == assistant && !mute
	}
	if !learn {
		return Example{}, fmt.Errorf("field %q: no message of the assistant to learn", column)
	}
	if slices.Contains(muted, true) {
		e.Mute = muted
	}
	e.Chat.Tools, err = l.tools(r)
	return e, err
}

// message reads one message; mute says that its weight in the loss is 0.
func (l Layout) message(v any) (m chat.Message, mute bool, err error) {
	o, ok := v.(*chat.Object)
	if !ok {
		return m, false, fmt.Errorf("not an object with %s and %s", l.Tags.Role, l.Tags.Content)
	}
	role, err := l.role(o)
	if err != nil {
		return m, false, err
	}
	if m.Role = role; role == call {
		m.Role = assistant
	}
	content, ok := o.Get(l.Tags.Content)
	calls, _ := o.Get("tool_calls")
	older, _ := o.Get("function_call") // as OpenAI's API had it before, one alone
	if !ok && calls == nil && older == nil {
		return m, false, fmt.Errorf("no %q", l.Tags.Content)
	}
	if err := setContent(&m, content, role == call); err != nil {
		return m, false, err
	}
	if calls != nil {
		err = addCalls(&m, calls)
	}
	if err == nil && older != nil && m.ToolCalls == nil {
		err = addCalls(&m, older)
	}
	if err != nil {
		return m, false, err
	}
	for key, v := range o.All() {
		switch key := key.(string); key {
		case l.Tags.Role, l.Tags.Content, "tool_calls", "function_call":
		case "weight", "loss_weight":
			if mute, err = weight(v, m.Role); err != nil {
				return m, false, fmt.Errorf("%s: %w", key, err)
			}
		default:
			if v != nil { // as Parquet has it where other rows have a value
				extra(&m, key, v)
			}
		}
	}
	_, thinks := m.Extra.Get("reasoning_content")
	if role == assistant && content == nil && m.ToolCalls == nil && !thinks {
		return m, false, fmt.Errorf("%s is null, and nothing is called: the assistant says nothing", l.Tags.Content)
	}
	return m, mute, nil
}

func (l Layout) role(o *chat.Object) (string, error) {
	v, ok := o.Get(l.Tags.Role)
	if !ok {
		return "", fmt.Errorf("no %q", l.Tags.Role)
	}
	name, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%q is not a string", l.Tags.Role)
	}
	if role := l.Tags.Roles[name]; role != "" {
		return role, nil
	}
	known := roles()
	if role := known[name]; role != "" {
		return role, nil
	}
	return "", fmt.Errorf("%s is %q; known: %s", l.Tags.Role, name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

func extra(m *chat.Message, key string, v any) {
	if m.Extra == nil {
		m.Extra = new(chat.Object)
	}
	m.Extra.Set(key, v)
}

// setContent sets what a message says. A call's content is what it calls.
func setContent(m *chat.Message, content any, isCall bool) error {
	if isCall {
		return addCalls(m, content)
	}
	switch c := content.(type) {
	case nil:
		return nil
	case string:
		m.Content = c
		return nil
	case []any:
		for i, part := range c {
			if err := addPart(m, part); err != nil {
				return fmt.Errorf("part %d: %w", i+1, err)
			}
		}
		return nil
	}
	return fmt.Errorf("the content is neither a string nor a list of parts")
}

// addPart adds a part of a message: {"type": "text", "text": ...}, or with "value".
func addPart(m *chat.Message, part any) error {
	if s, ok := part.(string); ok {
		m.Content += s
		return nil
	}
	o, ok := part.(*chat.Object)
	if !ok {
		return fmt.Errorf("not an object with type and text")
	}
	kind, _ := o.Get("type")
	value, ok := o.Get("value")
	if !ok {
		value, _ = o.Get("text")
	}
	if kind == "tool_call" {
		return addCalls(m, value)
	}
	s, ok := value.(string)
	switch {
	case kind == "text" && ok:
		m.Content += s
	case kind == "reasoning" && ok:
		before, _ := m.Extra.Get("reasoning_content")
		thoughts, _ := before.(string)
		extra(m, "reasoning_content", thoughts+s)
	case kind == "text" || kind == "reasoning":
		return fmt.Errorf("a part of the type %v without text", kind)
	default:
		return fmt.Errorf("a part of the type %v; only text can be trained on", kind)
	}
	return nil
}

// addCalls adds calls to those that a message has. An empty list is none: templates that ask whether there is a list
// would write its brackets and leave out the content.
func addCalls(m *chat.Message, v any) error {
	calls, err := toolCalls(v)
	if err != nil || len(calls) == 0 {
		return err
	}
	if before, ok := m.ToolCalls.([]any); ok {
		calls = append(before, calls...)
	}
	m.ToolCalls = calls
	return nil
}

// weight reads the weight of a message in the loss: 0, or 1 if the role is learned.
func weight(v any, role string) (mute bool, err error) {
	switch v {
	case nil:
		return false, nil
	case int64(0), float64(0), false:
		return true, nil
	case int64(1), float64(1), true:
		if role != assistant {
			return false, fmt.Errorf("1 for a message of the %s; only the assistant's are learned, or all with "+
				"corpus.Config.TrainOnPrompt", role)
		}
		return false, nil
	}
	return false, fmt.Errorf("%v; want 0 or 1", v)
}
