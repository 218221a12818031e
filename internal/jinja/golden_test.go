package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/internal/testdata"
)

// fixedNow is the time that the reference renderings were made at.
func fixedNow() time.Time { return time.Date(2025, 7, 10, 12, 0, 0, 0, time.UTC) }

func decodeFile(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// variables turns a case's context into the variables of a rendering.
func variables(d *Dict) map[string]any {
	vars := map[string]any{}
	for key, v := range d.All() {
		vars[key.(string)] = v
	}
	return vars
}

func render(text string, vars map[string]any) (string, error) {
	t, err := Parse("template", text)
	if err != nil {
		return "", err
	}
	out, err := t.Render(vars, Options{Now: fixedNow})
	return out.Text, err
}

// check compares one rendering with the reference's, or wants an error where the
// reference had one.
func check(t *testing.T, template string, vars map[string]any, want string, wantErr bool) {
	t.Helper()
	got, err := render(template, vars)
	if wantErr {
		if err == nil {
			t.Errorf("no error; rendered %q", got)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rendering differs (-want +got):\n%s", diff)
	}
}

// TestRealTemplates renders the templates of published models as Python did.
func TestRealTemplates(t *testing.T) {
	dir := testdata.Shared(t, "data", "templates")
	var gold struct {
		Cases []struct {
			Template, File, Case string
			Context              *Dict
			Expected             *string
			Error                any
		}
	}
	decodeFile(t, filepath.Join(dir, "gold_renders.json"), &gold)
	for _, c := range gold.Cases {
		t.Run(c.Template+"/"+c.Case, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.Expected != nil {
				want = *c.Expected
			}
			check(t, string(text), variables(c.Context), want, c.Error != nil)
		})
	}
}

// reference is a case of the other collections: what it should render, according to
// Python's jinja2 where that could render it.
type reference struct {
	Name, Template string
	Context        *Dict
	Expected       string
	Jinja2         *string
	Jinja2Error    string `json:"jinja2_error"`

	// The cases of llama.cpp have these in place of a context.
	Messages            any
	BOS                 string `json:"bos_token"`
	EOS                 string `json:"eos_token"`
	AddGenerationPrompt bool   `json:"add_generation_prompt"`
}

func (c *reference) run(t *testing.T) {
	want, wantErr := c.Expected, false
	switch {
	case c.Jinja2 != nil:
		want = *c.Jinja2
	case generationTag(c.Template):
		// The reference ran without transformers' extension.
	default:
		wantErr = c.Jinja2Error != ""
	}
	check(t, c.Template, variables(c.Context), want, wantErr)
}

func generationTag(template string) bool {
	parsed, err := Parse("template", template)
	return err == nil && parsed.HasGenerations()
}

func TestHuggingFaceCases(t *testing.T) {
	dir := testdata.Shared(t, "data", "templates")
	for _, name := range []string{"hf_jinja_e2e.json", "hf_jinja_unit.json"} {
		var cases []reference
		decodeFile(t, filepath.Join(dir, name), &cases)
		for _, c := range cases {
			t.Run(c.Name, c.run)
		}
	}
}

func TestLlamaCppCases(t *testing.T) {
	var cases []reference
	decodeFile(t, filepath.Join(testdata.Shared(t, "data", "templates"), "llamacpp_chat_templates.json"), &cases)
	for _, c := range cases {
		data, err := json.Marshal(c.Messages)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := ParseJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		c.Context = new(Dict)
		c.Context.Set("messages", messages)
		c.Context.Set("bos_token", c.BOS)
		c.Context.Set("eos_token", c.EOS)
		c.Context.Set("add_generation_prompt", c.AddGenerationPrompt)
		t.Run(c.Name, c.run)
	}
}
