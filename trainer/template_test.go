package trainer

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/lora"
)

// folderOf makes a folder of files.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An adapter is used, trained further and merged with the template that it was trained
// with: its folder's, unless that has none.
func TestTheTemplateIsThatOfTheAdapter(t *testing.T) {
	const config = "tokenizer_config.json"
	model := folderOf(t, map[string]string{templateFile: "model", "tokenizer.json": "{}", config: `{"eos_token": "m"}`})
	own := folderOf(t, map[string]string{templateFile: "own", "tokenizer.json": "[]", config: `{"eos_token": "a"}`})
	peft := folderOf(t, map[string]string{config: `{"chat_template": "peft"}`})
	file := folderOf(t, map[string]string{templateFile: "{{ eos_token }}"})
	bare := folderOf(t, map[string]string{config: `{}`})
	for _, tt := range []struct {
		name, adapter, template, want string
		files                         map[string]string // without those of the model that stay
	}{
		{"no adapter", "", "", "model", nil},
		{"an adapter with one", own, "", "own", map[string]string{templateFile: "own", config: `{"eos_token": "a"}`}},
		{"an adapter with one in its configuration", peft, "", "peft", map[string]string{templateFile: "", config: `{"chat_template": "peft"}`}},
		{"an adapter with nothing but one", file, "", "m", map[string]string{templateFile: "{{ eos_token }}"}},
		{"an adapter without", bare, "", "model", nil},
		{"one that is named", own, "chatml", "<|im_start|>user\nhi<|im_end|>\n", map[string]string{templateFile: "own", config: `{"eos_token": "a"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			template, err := ChatTemplate(model, tt.adapter, tt.template)
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.Render(chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "hi"}}}, false)
			if err != nil || got != tt.want {
				t.Errorf("%q (%v), want %q", got, err, tt.want)
			}
			files, err := folderFiles(model, tt.adapter)
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]string{}
			for _, f := range files {
				have[f.Name] = string(f.Data)
			}
			want := map[string]string{templateFile: "model", "tokenizer.json": "{}", config: `{"eos_token": "m"}`}
			for name, text := range tt.files {
				want[name] = text
			}
			for name, text := range want {
				if have[name] != text {
					t.Errorf("%s is %q, want %q", name, have[name], text)
				}
			}
		})
	}
	if _, err := ChatTemplate(bare, bare, ""); !errors.Is(err, chat.ErrNoTemplate) {
		t.Errorf("error %v without any template", err)
	}
}

// TestTemplatesForToolsAreSaved with what they belong to, and not with another template.
func TestTemplatesForToolsAreSaved(t *testing.T) {
	const tools, rag = "additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja"
	model := folderOf(t, map[string]string{templateFile: "model", tools: "model's", rag: "model's",
		"additional_chat_templates/notes.txt": "none of them"})
	own := folderOf(t, map[string]string{templateFile: "own", tools: "own"})
	bare := folderOf(t, map[string]string{"adapter_config.json": "{}"})
	for _, tt := range []struct {
		name, adapter, template string
		want                    map[string]string
	}{
		{"no adapter", "", "", map[string]string{templateFile: "model", tools: "model's", rag: "model's"}},
		{"an adapter without", bare, "", map[string]string{templateFile: "model", tools: "model's", rag: "model's"}},
		{"an adapter with its own", own, "", map[string]string{templateFile: "own", tools: "own"}},
		{"one that is named", "", "chatml", map[string]string{templateFile: ""}},
	} {
		files, err := savedFiles(Config{Model: model, LoRA: lora.Config{Adapter: tt.adapter},
			Data: corpus.Config{Template: tt.template}})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for _, f := range files {
			if have[f.Name] = string(f.Data); tt.template != "" {
				have[f.Name] = ""
			}
		}
		if !maps.Equal(have, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, have, tt.want)
		}
	}
}
