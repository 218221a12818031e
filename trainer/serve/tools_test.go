package serve_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/serve"
)

const weather = `"messages": [{"role": "user", "content": "Rain?"}], "tools": [{"type": "function", "function":
	{"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]`

// TestCallsOfToolsAreFound in an answer as it comes, a byte at a time; what cannot be read as one stays text.
func TestCallsOfToolsAreFound(t *testing.T) {
	const call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>"
	for _, tt := range []struct{ says, text, calls, finish string }{
		{"It rains.", "It rains.", "", "stop"},
		{call, "", `weather{"city": "Paris"}`, "tool_calls"},
		{"Let me see. " + call + call + " Wait", "Let me see.  Wait", `weather{"city": "Paris"} weather{"city": "Paris"}`,
			"tool_calls"},
		{`<tool_call>{"name": "now"}</tool_call>`, "", `now{}`, "tool_calls"},
		{`<tool_call>{"name": "now", "arguments": null}</tool_call>`, "", `now{}`, "tool_calls"},
		// A call is not made without the arguments that the model has written.
		{`<tool_call>{"name": "weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>`, "", `weather{"city": "Paris"}`,
			"tool_calls"},
		{`<tool_call>{"name": "weather", "arguments": ["Paris"]}</tool_call>`,
			`<tool_call>{"name": "weather", "arguments": ["Paris"]}</tool_call>`, "", "stop"},
		{`<tool_call>{"name": "weather", "arguments": "{\"city\": "}</tool_call>`,
			`<tool_call>{"name": "weather", "arguments": "{\"city\": "}</tool_call>`, "", "stop"},
		{"<tool_call>rain</tool_call>!", "<tool_call>rain</tool_call>!", "", "stop"},
		{`<tool_call>{"name": "weather"`, `<tool_call>{"name": "weather"`, "", "stop"},
		{"a <tool", "a <tool", "", "stop"},
		{"<tool_cat><tool_call>{}</tool_call><", "<tool_cat><tool_call>{}</tool_call><", "", "stop"},
	} {
		s := start(t, &parrot{says: tt.says, wait: ready}, toolTemplate, nil)
		c := s.whole("/v1/chat/completions", "{"+weather+"}").Choices[0]
		if got := calls(c.Message); *c.Message.Content != tt.text || got != tt.calls || *c.Finish != tt.finish {
			t.Errorf("%q: %q, %q, %s; want %q, %q, %s", tt.says, *c.Message.Content, got, *c.Finish, tt.text, tt.calls,
				tt.finish)
		}
		chunks := s.stream("/v1/chat/completions", "{"+weather+`, "stream": true}`)
		texts, finish := joined(chunks, 1)
		var all message
		for _, chunk := range chunks {
			all.Calls = append(all.Calls, chunk.Choices[0].Delta.Calls...)
		}
		if texts[0] != tt.text || calls(&all) != tt.calls || finish[0] != tt.finish {
			t.Errorf("%q streamed: %q, %q, %s", tt.says, texts[0], calls(&all), finish[0])
		}
		for i, call := range all.Calls {
			if call.Index != i || call.ID == "" || call.Type != "function" {
				t.Errorf("%+v", call)
			}
		}
		// Who offers no tools gets what the model writes.
		plain := s.whole("/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}]}`).Choices[0].Message
		none := s.whole("/v1/chat/completions", "{"+weather+`, "tool_choice": "none"}`).Choices[0].Message
		if *plain.Content != tt.says || *none.Content != tt.says {
			t.Errorf("without tools: %q, %q, want %q", *plain.Content, *none.Content, tt.says)
		}
	}
}

// TestAMarkedCallIsReadWhole, or stays text: it is not made without an argument that the model has written.
func TestAMarkedCallIsReadWhole(t *testing.T) {
	const marked = `{{ tools }}{% for m in messages %}{{ m.content }}
{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}
{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v }}</arg_value>
{% endfor %}</tool_call>{% endfor %}{% endfor %}`
	const city, days = "<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n", "<arg_key>days</arg_key>\n"
	for inner, want := range map[string]string{
		"now":                               "now{}",
		"weather\n" + city:                  `weather{"city":"Paris"}`,
		"weather\n" + city + days:           "",
		"weather\n" + days + city:           "",
		"weather\n" + city + "tomorrow":     "",
		"weather\n<arg_value>3</arg_value>": "",
	} {
		says := "<tool_call>" + inner + "</tool_call>"
		s := start(t, &parrot{says: says, wait: ready}, marked, nil)
		m := s.whole("/v1/chat/completions", "{"+weather+"}").Choices[0].Message
		if got := calls(m); got != want || want == "" && *m.Content != says {
			t.Errorf("%q: %q, %q, want %q", says, *m.Content, got, want)
		}
	}
}

func calls(m *message) string {
	var all []string
	for _, c := range m.Calls {
		all = append(all, c.Function.Name+c.Function.Arguments)
	}
	return strings.Join(all, " ")
}

// TestToolsReachTheModel, and so do calls, whose arguments are objects for a template, and what they return.
func TestToolsReachTheModel(t *testing.T) {
	s := start(t, &parrot{wait: ready}, toolTemplate, nil)
	tokens := func(body string) int { return s.whole("/v1/chat/completions", "{"+body+"}").Usage.Prompt }
	const tools = `Tools: [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", ` +
		`"properties": {"city": {"type": "string"}}}}}]` + "\n"
	if got, want := tokens(weather), len(tools+"user: Rain?\nassistant: "); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
	got := tokens(`"messages": [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": null, "tool_calls":
		[{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Paris\"}"}}]},
		{"role": "tool", "tool_call_id": "1", "content": "yes"}]`)
	want := len("user: Rain?\nassistant: <tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n" +
		"</tool_call>\ntool: yes\nassistant: ")
	if got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
}

// rounds returns the messages of a conversation with some calls of a tool.
func rounds(n int) string {
	all := `{"role": "user", "content": "Rain?"}`
	for range n {
		all += `, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
			{"role": "tool", "content": "yes"}`
	}
	return `"messages": [` + all + `]`
}

// TestCallsThatATemplateLeavesOutAreRefused, also where it writes others.
func TestCallsThatATemplateLeavesOutAreRefused(t *testing.T) {
	const calls = `{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments }}{% endfor %}`
	for name, tt := range map[string]struct {
		message string // that the template writes
		rounds  int
		status  int
	}{
		"all is written":            {`{{ m.content }}` + calls, 2, 200},
		"where there is no content": {`{% if m.content is none %}` + calls + `{% else %}{{ m.content }}{% endif %}`, 1, 200},
		"no calls":                  {`{{ m.content }}`, 1, 400},
		"no results":                {`{% if m.role != "tool" %}{{ m.content }}{% endif %}` + calls, 1, 400},
		"the first call":            {`{{ m.content }}{% if loop.index < 4 %}` + calls + `{% endif %}`, 2, 400},
	} {
		s := start(t, &parrot{wait: ready}, `{% for m in messages %}`+tt.message+`{% endfor %}`, nil)
		status, b := s.post("/v1/chat/completions", "{"+rounds(tt.rounds)+"}")
		if status != tt.status || status == 400 && decode(t, b).Error.Param != "messages" {
			t.Errorf("%s: %d %s", name, status, b)
		}
	}
}

// TestALongConversationIsRenderedFewTimes, of which three find out how the template has calls, once less if there is
// no room for it or nobody waits for the answer.
func TestALongConversationIsRenderedFewTimes(t *testing.T) {
	for name, tt := range map[string]struct {
		rounds, renders int
		gone            bool
	}{
		"short": {1, 5, false}, "long": {30, 5, false}, "too long": {200, 4, false},
		"gone": {30, 4, true},
	} {
		renders := 0
		s := start(t, &parrot{wait: ready}, toolTemplate, nil)
		counting := template(t, `{{ strftime_now("") }}`+toolTemplate)
		counting.Now = func() time.Time { renders++; return time.Now() }
		s.Ready([]serve.Model{{Name: "m", Engine: &parrot{wait: ready}, Tokenizer: byteTokenizer(t), Template: counting}})
		renders = 0 // without what the server finds out at the start
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if tt.gone {
			cancel()
		}
		body := strings.NewReader("{" + rounds(tt.rounds) + "}")
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "/v1/chat/completions", body))
		if renders != tt.renders {
			t.Errorf("%s: rendered %d times, want %d", name, renders, tt.renders)
		}
	}
}

// TestCallsOfPublishedTemplatesAreKnown has those that models were published with.
func TestCallsOfPublishedTemplatesAreKnown(t *testing.T) {
	dir := testdata.Shared(t, "data", "templates", "jinja")
	known := 0
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := chat.Parse(filepath.Base(file), string(b), nil)
		if err != nil {
			continue
		}
		for form, says := range map[string]string{
			"<tool_call>\n{\"name\"": "<tool_call>\n{\"name\": \"weather\", " +
				"\"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
			"<arg_key>": "\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n" +
				"<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
		} {
			call, _ := chat.ParseJSON([]byte(`[{"type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}]`))
			text, err := parsed.Render(chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "x"},
				{Role: "assistant", ToolCalls: call}}}, false)
			if err != nil || !strings.Contains(text, form) {
				continue
			}
			known++
			s := start(t, &parrot{says: says, wait: ready}, string(b), nil)
			status, body := s.post("/v1/chat/completions", "{"+weather+"}")
			if status != 200 {
				continue // it writes calls, and no tools
			}
			m := decode(t, body).Choices[0].Message
			want := `weather{"city": "Paris"}`
			if form == "<arg_key>" {
				want = `weather{"city":"Paris","days":3}`
			}
			if got := calls(m); got != want {
				t.Errorf("%s: %q, %q, want %s", filepath.Base(file), *m.Content, got, want)
			}
		}
	}
	if known < 2 {
		t.Errorf("%d templates write calls in a known form: %s", known, fmt.Sprint(files))
	}
}
