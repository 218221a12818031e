package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// model writes a model's folder.
func model(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadChoosesTheTemplate(t *testing.T) {
	tool := Conversation{Tools: []any{"x"}}
	tests := map[string]struct {
		files map[string]string
		c     Conversation
		want  string
	}{
		"tokenizer_config": {map[string]string{configFile: `{"chat_template":"c{{ bos_token }}` +
			`{{ eos_token }}","bos_token":"<s>","eos_token":{"content":"</s>"}}`}, Conversation{}, "c<s></s>"},
		"file first":     {map[string]string{templateFile: "f", configFile: `{"chat_template":"c"}`}, Conversation{}, "f"},
		"file for tools": {map[string]string{templateFile: "f", toolsTemplate: "t"}, tool, "t"},
		"list": {map[string]string{configFile: `{"chat_template":[{"name":"tool_use","template":"t"},` +
			`{"name":"default","template":"d"}]}`}, Conversation{}, "d"},
		"list with tools": {map[string]string{configFile: `{"chat_template":[{"name":"tool_use","template":"t"},` +
			`{"name":"default","template":"d"}]}`}, tool, "t"},
		"older token map": {map[string]string{templateFile: "{{ pad_token }}{{ unk_token }}{{ sep_token }}|" +
			"{{ additional_special_tokens }}",
			"special_tokens_map.json": `{"pad_token":"P","unk_token":"U","additional_special_tokens":["a",{"content":"b"}]}`,
			configFile:                `{"unk_token":"V","sep_token":null}`}, Conversation{}, "PV|['a', 'b']"},
		"tokens of its own": {map[string]string{
			templateFile: "{{ image_token }}{{ boi_token }}{{ eoi_token }}{{ add_bos_token }}",
			configFile: `{"extra_special_tokens":{"image_token":"I"},"model_specific_special_tokens":` +
				`{"boi_token":{"content":"B"}},"eoi_token":"E","add_bos_token":true}`}, Conversation{}, "IBE"},
		"extra tokens without names": {map[string]string{templateFile: "{{ bos_token }}",
			configFile: `{"extra_special_tokens":["<|im_start|>"],"bos_token":"<s>"}`}, Conversation{}, "<s>"},
		"no tools is None": {map[string]string{templateFile: "{{ tools }} {{ documents }} {{ add_generation_prompt }}"},
			Conversation{}, "None None False"},
		"own variables": {map[string]string{templateFile: "{{ enable_thinking }}{{ n }}"},
			Conversation{Vars: map[string]any{"enable_thinking": false, "n": 3}}, "False3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tm, err := Load(model(t, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tm.Render(tt.c, false)
			if err != nil || got != tt.want {
				t.Errorf("rendered %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	if _, err := Load(model(t, nil)); !errors.Is(err, ErrNoTemplate) || !strings.Contains(err.Error(), "chatml") {
		t.Errorf("error %v, want ErrNoTemplate with the built-in names", err)
	}
	tests := map[string]struct{ config, want string }{
		"no JSON":     {`{`, configFile},
		"a number":    {`{"chat_template":3}`, "chat_template: want a string"},
		"no default":  {`{"chat_template":[{"name":"rag","template":"x"}]}`, "called default"},
		"bad list":    {`{"chat_template":["x"]}`, "chat_template[0]"},
		"bad text":    {`{"chat_template":[{"name":"default","template":1}]}`, "chat_template[0].template"},
		"bad grammar": {`{"chat_template":"{% if %}"}`, "chat_template:1:7"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(model(t, map[string]string{configFile: tt.config})); err == nil || !strings.Contains(err.Error(),
				tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestTheTemplateOfAnAdapterComesFirst, with the special tokens of its model that it does not
// name itself.
func TestTheTemplateOfAnAdapterComesFirst(t *testing.T) {
	base := model(t, map[string]string{templateFile: "model {{ bos_token }}", configFile: `{"bos_token":"<s>"}`})
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a file": {map[string]string{templateFile: "adapter {{ bos_token }}"}, "adapter <s>"},
		"in tokenizer_config": {map[string]string{configFile: `{"chat_template":"own {{ bos_token }}","bos_token":"<b>"}`},
			"own <b>"},
		"none": {nil, "model <s>"},
	} {
		t.Run(name, func(t *testing.T) {
			tm, err := LoadAdapted(base, model(t, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tm.Render(Conversation{}, false); err != nil || got != tt.want {
				t.Errorf("rendered %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	if _, err := LoadAdapted(base, model(t, map[string]string{templateFile: "{% if %}"})); err == nil {
		t.Error("the model's template took the place of a damaged one")
	}
	if _, err := LoadAdapted(model(t, nil), ""); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("error %v, want ErrNoTemplate", err)
	}
}

func TestMessageKeepsWhatTheRowHas(t *testing.T) {
	const row = `{"role":"assistant","content":null,"tool_calls":[{"z":1.0,"a":2}],"name":"bob"}`
	var m Message
	if err := json.Unmarshal([]byte(row), &m); err != nil {
		t.Fatal(err)
	}
	tm, err := Parse("t", `{{ messages[0]|tojson }}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tm.Render(Conversation{Messages: []Message{m}}, false)
	if want := `{"role": "assistant", "content": null, "tool_calls": [{"z": 1.0, "a": 2}], "name": "bob"}`; err != nil ||
		got != want {
		t.Errorf("rendered %s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{`[]`, `{"content":"x"}`, `{"role":1}`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s was read as a message", bad)
		}
	}
}

const tokens = `{"bos_token":"<s>","eos_token":"</s>"}`

// TestNamed holds what the built-in templates write. Those of vicuna and llama2 have the spaces
// with which these models were published (FastChat, fastchat/conversation.py, vicuna_v1.1;
// Meta's llama, llama/generation.py), and LLaMA-Factory's do not.
func TestNamed(t *testing.T) {
	tests := map[string]struct {
		text  string
		words []string
	}{
		"chatml": {"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>" +
			"assistant\nHello!<|im_end|>\n" +
			"<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\nA bot.<|im_end|>\n", []string{"Hello!<|im_end|>",
			"A bot.<|im_end|>"}},
		"qwen": {"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>" +
			"assistant\nHello!<|im_end|>\n" +
			"<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\nA bot.<|im_end|>\n", []string{"Hello!<|im_end|>",
			"A bot.<|im_end|>"}},
		"llama3": {"<s><|start_header_id|>system<|end_header_id|>\n\nBe " +
			"brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>user<|end_header_id|>" +
			"\n\nWho are you?<|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\nA bot.<|eot_id|>", []string{"Hello!<|eot_id|>",
			"A bot.<|eot_id|>"}},
		"glm4": {"[gMASK]<sop><|system|>\nBe brief.<|user|>\nHi<|assistant|>\nHello!<|user|>\nWho are " +
			"you?<|assistant|>\nA bot.</s>",
			[]string{"\nHello!<|user|>", "\nA bot.</s>"}},
		"default": {"System: Be brief.</s>\nHuman: Hi</s>\nAssistant:Hello!</s>\nHuman: Who are you?</s>\nAssistant:A " +
			"bot.</s>\n",
			[]string{"Hello!</s>", "A bot.</s>"}},
		"alpaca": {"Be brief.### Instruction:\nHi\n\n### Response:\nHello!</s>\n\n### Instruction:\nWho are you?\n\n### " +
			"Response:\nA bot.</s>\n\n",
			[]string{"Hello!</s>", "A bot.</s>"}},
		"vicuna": {"Be brief. USER: Hi ASSISTANT: Hello!</s>USER: Who are you? ASSISTANT: A bot.</s>",
			[]string{" Hello!</s>", " A bot.</s>"}},
		"llama2": {"<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Who are you? [/INST] A " +
			"bot. </s>",
			[]string{" Hello! </s>", " A bot. </s>"}},
		"mistral": {"<s>[INST] Be brief.\n\nHi[/INST] Hello!</s>[INST] Who are you?[/INST] A bot.</s>",
			[]string{" Hello!</s>", " A bot.</s>"}},
	}
	if diff := cmp.Diff(len(tests), len(Names())); diff != "" {
		t.Errorf("built-in templates %v: %s", Names(), diff)
	}
	dir := model(t, map[string]string{configFile: tokens})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tm, err := Named(name, dir)
			if err != nil {
				t.Fatal(err)
			}
			c := twoTurns("Be brief.", "Hello!", "A bot.")
			got, err := tm.Render(c, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.text, got); diff != "" {
				t.Errorf("rendering differs (-want +got):\n%s", diff)
			}
			wantWords(t, learned(t, tm, c), tt.words...)
			prompt, err := tm.Render(Conversation{Messages: c.Messages[:2]}, true)
			if err != nil || !strings.HasPrefix(got, prompt) {
				t.Errorf("the prompt %q, %v does not begin the conversation", prompt, err)
			}
		})
	}
}

// A tokenizer that lacks a token gives several for its text.
func TestMissingTokensOfNamedTemplates(t *testing.T) {
	dir := model(t, map[string]string{configFile: tokens})
	for name, want := range map[string][]string{
		"chatml": {"<|im_start|>", "<|im_end|>"},
		"qwen":   {"<|im_start|>", "<|im_end|>"},
		"llama3": {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		"glm4":   {"[gMASK]", "<sop>", "<|user|>", "<|assistant|>"},
		"alpaca": nil, "default": nil, "llama2": nil, "mistral": nil, "vicuna": nil,
	} {
		tm, err := Named(name, dir)
		if err != nil {
			t.Fatal(err)
		}
		letters := func(text string, _ bool) []int32 { return make([]int32, len(text)) }
		if diff := cmp.Diff(want, tm.Missing(letters)); diff != "" {
			t.Errorf("%s without its tokens (-want +got):\n%s", name, diff)
		}
		if got := tm.Missing(func(string, bool) []int32 { return make([]int32, 1) }); got != nil {
			t.Errorf("%s with its tokens: %q are missing", name, got)
		}
	}
	own, err := Load(model(t, map[string]string{templateFile: "<|im_start|>"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := own.Missing(func(string, bool) []int32 { return nil }); got != nil {
		t.Errorf("a model's own template: %q are missing", got)
	}
}

func TestNamedErrors(t *testing.T) {
	dir := model(t, map[string]string{configFile: `{}`})
	if _, err := Named("nope", dir); err == nil || !strings.Contains(err.Error(), "alpaca, chatml") {
		t.Errorf("error %v, want one with the names", err)
	}
	if _, err := Named("../doc", dir); err == nil {
		t.Error("a path was taken for a name")
	}
	if _, err := Named("alpaca", dir); err == nil || !strings.Contains(err.Error(), "eos_token") {
		t.Errorf("error %v, want one about eos_token", err)
	}
	tm, err := Named("chatml", dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tm.Render(Conversation{Tools: []any{"x"}}, false); err == nil {
		t.Error("a built-in template left out the tools")
	}
}
