package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// fromAPI renders messages in the form of the API.
func fromAPI(t *Template, messages string) (string, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(messages), &list); err != nil {
		return "", err
	}
	all, err := FromAPI(list)
	if err != nil {
		return "", err
	}
	return t.Render(t.Fit(Conversation{Messages: all}), true)
}

const apiTemplate = `{% for m in messages %}{{ m.role }}: {{ m.content }};{% for c in m.tool_calls %} ` +
	`{{ c.function.name }}({{ c.function.arguments | tojson }});{% endfor %} {% endfor %}`

func TestMessagesOfTheAPI(t *testing.T) {
	parsed, err := Parse("t", apiTemplate, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(arguments string) string {
		return `[{"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f", "arguments": ` + arguments +
			`}}]}]`
	}
	for _, tt := range []struct{ messages, want string }{
		{`[{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}]`, "system: a; user: b; "},
		{`[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]`, "user: ab; "},
		{call(`"{\"a\": [1]}"`), `assistant: x; f({"a": [1]}); `},
		{call(`{"a": 1}`), `assistant: x; f({"a": 1}); `},
		{call(`"no JSON"`), `assistant: x; f("no JSON"); `},
	} {
		if got, err := fromAPI(parsed, tt.messages); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.messages, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ messages, why string }{
		{`null`, "messages is empty"},
		{`[]`, "messages is empty"},
		{`["Hello"]`, "messages[0]: a message must be an object"},
		{`[{"role": "user", "content": "x"}, null]`, "messages[1]: a message must be an object"},
		{`[{"role": "user", "content": "x"}, {"content": "x"}]`, "messages[1]: role: a message must say"},
		{`[{"role": 5, "content": "x"}]`, "messages[0]: role: want a string"},
		{`[{"role": "boss", "content": ""}]`, `messages[0].role is "boss"; it takes system, user, assistant, tool`},
		{`[{"role": "user", "content": null}]`, "messages[0].content: must be a text"},
		{`[{"role": "user", "content": []}]`, "messages[0].content: must be a text"},
		{`[{"role": "user", "text": "x"}]`, "messages[0].content: must be a text"},
		{`[{"role": "assistant", "tool_calls": null}]`, "messages[0].content: must be a text"},
		{`[{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "image_url"}]}]`,
			"messages[1].content: has a part that is no text"},
		{`[{"role": "user", "content": "x", "tool_calls": [{"function": {}}]}]`, "messages[0].tool_calls: must be"},
		{`[{"role": "assistant", "content": "x", "tool_calls": []}]`, "messages[0].tool_calls: must be"},
		{`[{"role": "assistant", "content": "x", "tool_calls": [{"function": "f"}]}]`, "messages[0].tool_calls: each"},
	} {
		if got, err := fromAPI(parsed, tt.messages); err == nil || !strings.HasPrefix(err.Error(), tt.why) {
			t.Errorf("%s: %q, %v, want %s", tt.messages, got, err, tt.why)
		}
	}
}

// TestCallsHaveTheFormThatATemplateTakes, whether content beside them is null, "" or not there.
func TestCallsHaveTheFormThatATemplateTakes(t *testing.T) {
	const calls = `{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}`
	for name, tt := range map[string]struct{ form, want string }{
		"asks whether it is null": {`{% if m.content is none %}` + calls + `{% else %}{{ m.content }}{% endif %}`,
			`f{"a": 1}`},
		"fails at null":        {`{{ m.content + "" }}` + calls, `f{"a": 1}`},
		"writes null as it is": {`{{ m.content }}` + calls, `f{"a": 1}`},
		"arguments are a text": {`{% if m.content is none %}{% for c in m.tool_calls %}` +
			`{{ c.function.name + c.function.arguments }}{% endfor %}{% else %}{{ m.content }}{% endif %}`, `f{"a": 1}`},
	} {
		parsed, err := Parse("t", `{% for m in messages %}`+tt.form+`{% endfor %}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{`"content": null, `, `"content": "", `, ``} {
			for _, arguments := range []string{`"{\"a\": 1}"`, `{"a": 1}`} {
				got, err := fromAPI(parsed, `[{"role": "assistant", `+content+
					`"tool_calls": [{"function": {"name": "f", "arguments": `+arguments+`}}]}]`)
				if err != nil || strings.ReplaceAll(got, `":1`, `": 1`) != tt.want {
					t.Errorf("%s, %s%s: %q, %v", name, content, arguments, got, err)
				}
			}
		}
	}
}

func TestToolsOfTheAPI(t *testing.T) {
	for text, want := range map[string]int{``: 0, `null`: 0, `[]`: 0, `{}`: -1, `"f"`: -1, `[`: -1, `["f"]`: -1,
		`[{"type": "function", "function": {"name": 5}}]`: -1, `[{"type": "function", "function": {"name": ""}}]`: -1,
		`[{"type": "function"}]`: -1, `[{"type": "web", "function": {"name": "f"}}]`: -1,
		`[{"type": "function", "function": {"name": "f"}}]`: 1} {
		if got, err := ToolsFromAPI([]byte(text)); len(got) != max(0, want) || (err != nil) != (want < 0) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestToolsThatATemplateLeavesOutAreFound(t *testing.T) {
	c := Conversation{Tools: []any{"f"}, Messages: []Message{{Role: "user", Content: "x"}}}
	for text, want := range map[string]error{apiTemplate: ErrNoTools, apiTemplate + `{{ tools }}`: nil} {
		parsed, err := Parse("t", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := parsed.Render(c, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := parsed.Whole(c, text); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// TestToolsThatSayNone: what a tool says of itself is no content that is null.
func TestToolsThatSayNone(t *testing.T) {
	tm, err := Parse("null", `{% for t in tools %}{{ t.description }};{% endfor %}{% for m in messages %}`+
		`{% if m.content is none %}{{ m.tool_calls[0].function.arguments | tojson }}{% else %}{{ m.content }}{% endif %}`+
		`{% endfor %}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Conversation{Messages: []Message{callOfAdd(t).Messages[1]}, Tools: []any{with(nil, "description", "5 or None")}}
	if text, err := tm.Render(tm.Fit(c), false); err != nil || text != `5 or None;{"b": 2, "a": 1.0}` {
		t.Errorf("%q, %v", text, err)
	}
}
