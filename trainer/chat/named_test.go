package chat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/internal/testdata"
)

// rendered is a conversation as the template that a model was published with writes it.
type rendered struct {
	name     string
	messages []Message
	prompt   bool // with a generation prompt
	text     string
}

// readRendered reads the reference renderings of texts alone, by their templates.
func readRendered(t *testing.T) map[string][]rendered {
	t.Helper()
	all := map[string][]rendered{}
	read := func(file string, into any) {
		data, err := os.ReadFile(testdata.Shared(t, "data", "templates", file))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var cpp []struct {
		Name     string
		Messages []Message
		JINJA2   *string `json:"jinja2"`
	}
	read("llamacpp_chat_templates.json", &cpp)
	for _, c := range cpp {
		if c.JINJA2 != nil {
			all[c.Name] = append(all[c.Name], rendered{c.Name, c.Messages, true, *c.JINJA2})
		}
	}
	var gold struct {
		Cases []struct {
			Template, Case, Expected string
			Context                  struct {
				Messages []Message
				Tools    any
				Prompt   bool `json:"add_generation_prompt"`
			}
		}
	}
	read("gold_renders.json", &gold)
	for _, c := range gold.Cases {
		r := rendered{c.Template + "/" + c.Case, c.Context.Messages, c.Context.Prompt, c.Expected}
		if c.Context.Tools == nil && plainOnly(Conversation{Messages: r.messages}) == nil {
			all[c.Template] = append(all[c.Template], r)
		}
	}
	return all
}

// TestNamedIsAsPublished compares the built-in templates with renderings of those that models
// were published with, byte by byte.
func TestNamedIsAsPublished(t *testing.T) {
	references := readRendered(t)
	for name, tt := range map[string]struct {
		reference, tokens string
		begin             string // what only ours begins with: the renderings leave out a <s> at the start
	}{
		"chatml": {"teknium/OpenHermes-2.5-Mistral-7B", `{}`, ""},
		"llama3": {"Llama-3", `{"bos_token":""}`, ""},
		"llama2": {"TheBloke/FusionNet_34Bx2_MoE-AWQ", `{"bos_token":"<s>","eos_token":"</s>"}`, "<s>"},
		"glm4":   {"glm4", `{"eos_token":""}`, ""},
		"qwen":   {"qwen2_5", `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tm, err := Named(name, model(t, map[string]string{configFile: tt.tokens}))
			if err != nil {
				t.Fatal(err)
			}
			if len(references[tt.reference]) == 0 {
				t.Fatalf("no rendering of %s", tt.reference)
			}
			for _, r := range references[tt.reference] {
				got, err := tm.Render(Conversation{Messages: r.messages}, r.prompt)
				if err != nil {
					t.Errorf("%s: %v", r.name, err)
				}
				if diff := cmp.Diff(r.text, strings.TrimPrefix(got, tt.begin)); diff != "" {
					t.Errorf("%s (-published +ours):\n%s", r.name, diff)
				}
			}
		})
	}
}

// TestABuiltInTemplateLeavesNothingOut: what it would not write of the words to learn is refused; an empty list of
// calls is none.
func TestABuiltInTemplateLeavesNothingOut(t *testing.T) {
	tm, err := Named("chatml", model(t, map[string]string{configFile: "{}"}))
	if err != nil {
		t.Fatal(err)
	}
	const thoughts = "a built-in chat template cannot write thoughts"
	for row, want := range map[string]string{
		`{"role": "assistant", "content": "a", "tool_calls": []}`:                       "",
		`{"role": "assistant", "content": "a", "reasoning_content": ""}`:                "",
		`{"role": "assistant", "content": "a", "reasoning_content": "hm"}`:              "message 2: " + thoughts,
		`{"role": "assistant", "content": "a", "tool_calls": [{"name": "f"}]}`:          "cannot write tools",
		`{"role": "assistant", "content": [{"type": "text", "text": "a"}]}`:             "content other than text",
		`{"role": "assistant", "content": "a", "name": "b", "reasoning_content": null}`: "",
	} {
		var m Message
		if err := json.Unmarshal([]byte(row), &m); err != nil {
			t.Fatal(err)
		}
		_, err := tm.Spans(Conversation{Messages: []Message{user("Hi"), m}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", row, err, want)
		}
	}
}
