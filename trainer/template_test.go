package trainer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed98097648/tune/trainer/chat"
)

// folderOf makes a folder of files.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
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
