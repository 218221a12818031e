package gguf

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed98097648/tune/internal/testdata"
	"github.com/seed98097648/tune/trainer/chat"
)

// TestChatTemplatesBecomeOllamas renders with both; newForm itself compares four conversations.
func TestChatTemplatesBecomeOllamas(t *testing.T) {
	for name, bos := range map[string]string{"chatml": "", "qwen": "", "llama3": "<|begin_of_text|>", "phi": ""} {
		source, err := chat.Source(name)
		if err != nil {
			continue // another name in this version
		}
		tmpl, err := chat.Parse(name, source, map[string]string{"bos_token": bos, "eos_token": "</s>"})
		if err != nil {
			t.Fatal(err)
		}
		form, err := lasting(tmpl, bos)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m := []chat.Message{{Role: "system", Content: "a"}, {Role: "user", Content: "b {{ c }}"}}
		want, err := tmpl.Render(chat.Conversation{Messages: m}, true)
		if got := execute(form, m); err != nil || bos+got != want {
			t.Errorf("%s: %q, want %q, %v", name, got, want, err)
		}
	}
}

func TestATemplateThatAModelfileCannotSayIsLeftOut(t *testing.T) {
	const turns = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}" +
		"{% if add_generation_prompt %}assistant: {% endif %}"
	for _, tt := range []struct{ source, why string }{
		{turns, ""},
		{"{% for m in messages %}{{ loop.index }}{{ m.role }}: {{ m.content }}\n{% endfor %}", "one turn after the other"},
		{"Today is a {{ strftime_now('%A') }}.\n" + turns, "the date or the time"},
		{"It is {{ strftime_now('%I %p') }}.\n" + turns, "the date or the time"},
	} {
		tmpl, err := chat.Parse("x", tt.source, nil)
		if err != nil {
			t.Fatal(err)
		}
		form, err := lasting(tmpl, "")
		if (err == nil) != (tt.why == "") || err != nil && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%q became %q, %v, want an error with %q", tt.source, form, err, tt.why)
		}
	}
}

func TestAModelfileSaysHowAndUntilWhen(t *testing.T) {
	model := testdata.Shared(t, "data", "tokenizers", "qwen2_5")
	text, without, err := Modelfile(model, "out/m.gguf", "out/Modelfile")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(without)
	for _, want := range []string{"FROM ./m.gguf\n", "PARAMETER temperature "} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
}

// TestAModelfileFindsTheFile from its own folder, as Ollama looks for it there.
func TestAModelfileFindsTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ modelfile, file, want string }{
		{"Modelfile", "m.gguf", "./m.gguf"},
		{"a/Modelfile", "a/b/m.gguf", "./b/m.gguf"},
		{"a/Modelfile", "m.gguf", "../m.gguf"},
		{"a/Modelfile", "b/../c/m.gguf", "../c/m.gguf"},
		{filepath.Join(dir, "a", "Modelfile"), filepath.Join(dir, "m.gguf"), "../m.gguf"},
	} {
		if got, err := seenFrom(tt.modelfile, tt.file); err != nil || got != tt.want {
			t.Errorf("%s names %s as %s, want %s, %v", tt.modelfile, tt.file, got, tt.want, err)
		}
	}
}
