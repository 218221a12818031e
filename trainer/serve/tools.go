package serve

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/chat"
)

// toolCall is a call of a tool, in the form of the API.
type toolCall struct {
	Index    int          `json:"index"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// toolForm is how a model writes a call: parse reads what stands between the marks.
type toolForm struct {
	open, close string
	parse       func(inner string) (toolFunction, bool)
}

// toolFormOf finds out by an example how a template has calls, for that is how the model has learned to write them. It
// is nil for a form that is not known, whose calls stay text.
func toolFormOf(t *chat.Template) *toolForm {
	if t == nil {
		return nil
	}
	written := t.ExampleCall()
	for _, f := range []toolForm{{"<tool_call>", "</tool_call>", jsonCall}, {"<tool_call>", "</tool_call>", markedCall}} {
		_, after, _ := strings.Cut(written, f.open)
		inner, _, closed := strings.Cut(after, f.close)
		if got, ok := f.parse(inner); closed && ok && got.Name == chat.ExampleName &&
			strings.Contains(got.Arguments, chat.ExampleValue) {
			return &f
		}
	}
	return nil
}

// jsonCall reads {"name": ..., "arguments": {...}}, as Qwen and others write it. Some models write the arguments as a
// text of JSON, as the API has them.
func jsonCall(inner string) (toolFunction, bool) {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	err := json.Unmarshal([]byte(inner), &call)
	var text string
	if json.Unmarshal(call.Arguments, &text) == nil { // or null
		call.Arguments = json.RawMessage(text)
	}
	given := cmp.Or(strings.TrimSpace(string(call.Arguments)), "{}")
	return toolFunction{call.Name, given}, err == nil && call.Name != "" && given[0] == '{' && json.Valid([]byte(given))
}

var markedArgument = regexp.MustCompile(`(?s)<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>`)

// markedCall reads a name, and keys and values between marks, as GLM-4.5 writes it. A value is JSON or else a text.
func markedCall(inner string) (toolFunction, bool) {
	name, _, _ := strings.Cut(inner, "<arg_key>")
	rest := inner[len(name):]
	arguments := map[string]any{}
	for _, m := range markedArgument.FindAllStringSubmatch(rest, -1) {
		key, value := strings.TrimSpace(m[1]), m[2]
		if arguments[key] = any(value); json.Valid([]byte(value)) {
			arguments[key] = json.RawMessage(value)
		}
	}
	var text bytes.Buffer
	err := plainjson.Encode(&text, arguments, "")
	name = strings.TrimSpace(name)
	return toolFunction{name, strings.TrimSpace(text.String())}, err == nil && name != "" &&
		!strings.ContainsAny(name, "{}<>\n") && strings.TrimSpace(markedArgument.ReplaceAllString(rest, "")) == ""
}

// toolSplitter finds the calls in a text that comes in pieces.
type toolSplitter struct {
	form   *toolForm
	held   string // what may be part of a call
	inside bool
	calls  int
}

// push returns what is text of one more piece, and the calls that it completes. What looks like a call and cannot be
// read is text.
func (s *toolSplitter) push(more string, end bool) (text string, calls []toolCall) {
	s.held += more
	for {
		if !s.inside {
			before, after, found := strings.Cut(s.held, s.form.open)
			if !found {
				n := len(s.held) - beginning(s.held, s.form.open)
				if end {
					n = len(s.held)
				}
				text, s.held = text+s.held[:n], s.held[n:]
				return text, calls
			}
			text, s.held, s.inside = text+before, after, true
		}
		inner, after, found := strings.Cut(s.held, s.form.close)
		if !found && !end {
			return text, calls
		}
		s.held, s.inside = after, false
		if f, ok := s.form.parse(inner); ok && found {
			calls = append(calls, toolCall{s.calls, "call_" + rand.Text(), "function", f})
			s.calls++
			continue
		}
		text += s.form.open + inner
		if found {
			text += s.form.close
		}
	}
}

// beginning returns how many bytes at the end of s may begin a mark.
func beginning(s, mark string) int {
	for n := min(len(mark)-1, len(s)); n > 0; n-- {
		if strings.HasSuffix(s, mark[:n]) {
			return n
		}
	}
	return 0
}
