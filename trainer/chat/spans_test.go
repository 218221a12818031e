package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed98097648/tune/internal/testdata"
)

func fixedNow() time.Time { return time.Date(2025, 7, 10, 12, 0, 0, 0, time.UTC) }

func user(s string) Message      { return Message{Role: "user", Content: s} }
func assistant(s string) Message { return Message{Role: "assistant", Content: s} }

// twoTurns is a conversation of two turns; system is left out if empty.
func twoTurns(system, first, second string) Conversation {
	c := Conversation{Messages: []Message{user("Hi"), assistant(first), user("Who are you?"), assistant(second)}}
	if system != "" {
		c.Messages = append([]Message{{Role: "system", Content: system}}, c.Messages...)
	}
	return c
}

// learned returns the words to be learned, and checks that the spans are the rendering.
func learned(t *testing.T, tm *Template, c Conversation) []string {
	t.Helper()
	spans, err := tm.Spans(c)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	var whole strings.Builder
	for i, s := range spans {
		whole.WriteString(s.Text)
		if s.Learn {
			words = append(words, s.Text)
		}
		if s.Learn != (s.Message >= 0) || s.Learn && !strings.Contains(s.Text, lastLine(c.Messages[s.Message].Content)) {
			t.Errorf("span %d, %q, is told to be message %d", i, s.Text, s.Message)
		}
	}
	text, err := tm.Render(tm.Fit(c), false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, whole.String()); diff != "" {
		t.Errorf("the spans are not the rendering:\n%s", diff)
	}
	return words
}

// lastLine is what stands after the thoughts of a message.
func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

func wantWords(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("words to learn (-want +got):\n%s", diff)
	}
}

func published(t *testing.T, name string) *Template {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata.Shared(t, "data", "templates", "jinja"), name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	tm, err := Parse(name, string(text), map[string]string{"bos_token": "<BOS>", "eos_token": "<EOS>"})
	if err != nil {
		t.Fatal(err)
	}
	tm.Now = fixedNow
	return tm
}

// TestWordsOfPublishedTemplates: what each template has the assistant say in a
// conversation of two turns. The words were read and judged one by one.
func TestWordsOfPublishedTemplates(t *testing.T) {
	tests := map[string][2]string{
		"GLM-4.6":                                  {"\n<think></think>\nHello!<|user|>", "\n<think></think>\nA bot."},
		"GLM-4.7-Flash":                            {"Hello!<|user|>", "A bot."},
		"glm-4-9b-chat":                            {"\nHello!<|user|>", "\nA bot."},
		"HuggingFaceTB-SmolLM3-3B":                 {"Hello!<|im_end|>", "A bot.<|im_end|>"},
		"Qwen-QwQ-32B":                             {"Hello!<|im_end|>", "A bot.<|im_end|>"},
		"Qwen-Qwen2.5-7B-Instruct":                 {"Hello!<|im_end|>", "A bot.<|im_end|>"},
		"Qwen-Qwen3-0.6B":                          {"Hello!<|im_end|>", "<think>\n\n</think>\n\nA bot.<|im_end|>"},
		"Qwen3-Coder":                              {"Hello!<|im_end|>", "A bot.<|im_end|>"},
		"TinyLlama-1.1B-Chat-v1.0":                 {"Hello!<EOS>", "A bot.<EOS>"},
		"google-gemma-2-2b-it":                     {"Hello!<end_of_turn>", "A bot.<end_of_turn>"},
		"microsoft-Phi-3.5-mini-instruct":          {"Hello!<|end|>", "A bot.<|end|>"},
		"mistralai-Mistral-Nemo-Instruct-2407":     {"Hello!<EOS>", "A bot.<EOS>"},
		"meta-llama-Llama-3.1-8B-Instruct":         {"Hello!<|eot_id|>", "A bot.<|eot_id|>"},
		"meta-llama-Llama-3.2-3B-Instruct":         {"Hello!<|eot_id|>", "A bot.<|eot_id|>"},
		"meta-llama-Llama-3.3-70B-Instruct":        {"Hello!<|eot_id|>", "A bot.<|eot_id|>"},
		"from_tokenizer_config_llama3_2":           {"Hello!<|eot_id|>", "A bot.<|eot_id|>"},
		"from_tokenizer_config_qwen2_5":            {"Hello!<|im_end|>", "A bot.<|im_end|>"},
		"from_tokenizer_config_qwen3":              {"Hello!<|im_end|>", "<think>\n\n</think>\n\nA bot.<|im_end|>"},
		"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": {"Hello!<｜end▁of▁sentence｜>", "A bot.<｜end▁of▁sentence｜>"},
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": {"Hello!<｜end▁of▁sentence｜>", "A bot.<｜end▁of▁sentence｜>"},
		"openai-gpt-oss-120b": {"<|channel|>final<|message|>Hello!<|end|>",
			"<|channel|>final<|message|>A bot.<|return|>"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			tm := published(t, name)
			system := "Be brief."
			if name == "google-gemma-2-2b-it" {
				system = "" // it refuses one
			}
			wantWords(t, learned(t, tm, twoTurns(system, "Hello!", "A bot.")), want[:]...)
		})
	}
}

// TestWordsThatALineEndFollows: nothing but white space ends the turns of such a template.
func TestWordsThatALineEndFollows(t *testing.T) {
	tm, err := Parse("lines", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", nil)
	if err != nil {
		t.Fatal(err)
	}
	spans, err := tm.Spans(twoTurns("", "Hello!", "A bot."))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range spans {
		if s.Open != (i == len(spans)-2) || s.Open && s.Text != "A bot." {
			t.Errorf("span %d, %q, is open: %v", i, s.Text, s.Open)
		}
	}
}

// TestTheBlocksOfOneMessageAreItsOwn has a template that writes two.
func TestTheBlocksOfOneMessageAreItsOwn(t *testing.T) {
	tm, err := Parse("two", `{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}a{% endgeneration %} `+
		`{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	spans, err := tm.Spans(Conversation{Messages: []Message{user("Hi"), assistant("Hello!")}})
	if err != nil || len(spans) != 3 || spans[0].Message != 1 || spans[1].Message != -1 || spans[2].Message != 1 {
		t.Errorf("spans %+v, %v", spans, err)
	}
}

// TestWordsThatNothingEnds: where a turn ends with what begins the next, the last of a conversation is told to be
// open.
func TestWordsThatNothingEnds(t *testing.T) {
	for name, want := range map[string]bool{"GLM-4.6": true, "GLM-4.7-Flash": true, "glm-4-9b-chat": true,
		"Qwen-Qwen3-0.6B": false, "google-gemma-2-2b-it": false, "TinyLlama-1.1B-Chat-v1.0": false,
		"meta-llama-Llama-3.1-8B-Instruct": false, "openai-gpt-oss-120b": false} {
		for n := 2; n <= 4; n += 2 {
			c := twoTurns("", "Hello!", "A bot.")
			c.Messages = c.Messages[:n]
			spans, err := published(t, name).Spans(c)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range spans {
				if last := i+1 == len(spans); s.Open != (want && last) {
					t.Errorf("%s: span %d of %d, %q, is open: %v", name, i+1, len(spans), s.Text, s.Open)
				}
			}
		}
	}
}

// TestBlocksOfUnknownMessages: a template writes two blocks for one message and none for another.
func TestBlocksOfUnknownMessages(t *testing.T) {
	tm, err := Parse("thoughts", `{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}:{% else %}`+
		`{% if m.reasoning_content %}{% generation %}{{ m.reasoning_content }}{% endgeneration %}; {% endif %}`+
		`{% if m.content %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}.{% endif %}{% endfor %}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := twoTurns("", "Hello!", "A bot.")
	c.Messages[1].Extra = new(Object)
	c.Messages[1].Extra.Set("reasoning_content", "hm")
	for _, second := range []string{"A bot.", ""} {
		c.Messages[3].Content = second
		spans, err := tm.Spans(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spans {
			if s.Message != -1 {
				t.Errorf("after %q, %q is told to be message %d", second, s.Text, s.Message)
			}
		}
	}
}

// TestWordsWithThoughts: a template that drops the thoughts of earlier turns still has
// the words of all turns marked.
func TestWordsWithThoughts(t *testing.T) {
	c := twoTurns("", "<think>\nhm\n</think>\n\nHello!", "<think>\nwell\n</think>\n\nA bot.")
	tests := map[string][2]string{
		"Qwen-Qwen3-0.6B": {"Hello!<|im_end|>", "<think>\nwell\n</think>\n\nA bot.<|im_end|>"},
		"Qwen-QwQ-32B":    {"Hello!<|im_end|>", "<think>\nwell\n</think>\n\nA bot.<|im_end|>"},
		"GLM-4.6":         {"\n<think></think>\nHello!<|user|>", "\n<think>well</think>\nA bot."},
		"GLM-4.7-Flash":   {"Hello!<|user|>", "well</think>A bot."},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) { wantWords(t, learned(t, published(t, name), c), want[:]...) })
	}
}

func callOfAdd(t *testing.T) Conversation {
	t.Helper()
	parse := func(s string) any {
		v, err := ParseJSON([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	id := new(Object)
	id.Set("tool_call_id", "abcdefghi")
	return Conversation{
		Tools: []any{parse(`{"type":"function","function":{"name":"add","description":"Adds.",` +
			`"parameters":{"type":"object","properties":{"b":{"type":"number","description":"x"}}}}}`)},
		Messages: []Message{
			user("1+2?"),
			{Role: "assistant", ToolCalls: parse(`[{"type":"function","id":"abcdefghi","function":{"name":"add",` +
				`"arguments":{"b":2,"a":1.0}}}]`)},
			{Role: "tool", Content: "3", Extra: id},
			assistant("It is 3."), user("thanks"), assistant("Welcome."),
		},
	}
}

func TestWordsWithCalls(t *testing.T) {
	const hermes = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 2, \"a\": 1.0}}\n</tool_call><|im_end|>"
	tests := map[string][]string{
		"Qwen-Qwen2.5-7B-Instruct": {hermes, "It is 3.<|im_end|>", "Welcome.<|im_end|>"},
		"Qwen-Qwen3-0.6B": {hermes, "It is 3.<|im_end|>",
			"<think>\n\n</think>\n\nWelcome.<|im_end|>"},
		"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": {hermes, "It is 3.<|im_end|>", "Welcome.<|im_end|>"},
		"meta-llama-Llama-3.1-8B-Instruct": {`{"name": "add", "parameters": {"b": 2, "a": 1.0}}<|eot_id|>`,
			"It is 3.<|eot_id|>", "Welcome.<|eot_id|>"},
		"GLM-4.7-Flash": {"<tool_call>add<arg_key>b</arg_key><arg_value>2</arg_value><arg_key>a</arg_key><arg_value>1." +
			"0</arg_value></tool_call><|observation|>",
			"It is 3.<|user|>", "Welcome."},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) { wantWords(t, learned(t, published(t, name), callOfAdd(t)), want...) })
	}
}

// TestWordsHaveTheCallsThatAPromptHas: a model learns calls in the form in which they stand in a prompt, also where
// the template has one of its own.
func TestWordsHaveTheCallsThatAPromptHas(t *testing.T) {
	tm, err := Parse("t", `{% for m in messages %}<{{ m.role }}>{% if m.content is none %}{% for c in m.tool_calls %}`+
		`{{ c.function.name + c.function.arguments }}{% endfor %}{% else %}{{ m.content }}{% endif %}</s>{% endfor %}`+
		`{{ '<assistant>' if add_generation_prompt }}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, learned(t, tm, callOfAdd(t)), `add{"b":2,"a":1.0}</s>`, "It is 3.</s>", "Welcome.</s>")
}

// TestCallsLeftOutAreErrors: a template that does not write calls would teach a model to
// end its turn where it should call. That of R1 writes them in another place than an answer.
func TestCallsLeftOutAreErrors(t *testing.T) {
	for name, why := range map[string]string{
		"TinyLlama-1.1B-Chat-v1.0":                 `does not write the call of "add"`,
		"HuggingFaceTB-SmolLM3-3B":                 `does not write the call of "add"`,
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "it cannot be told",
	} {
		if _, err := published(t, name).Spans(callOfAdd(t)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: error %v, want one with %s", name, err, why)
		}
	}
}

// TestWordsOfOddTemplates has templates made to mislead.
func TestWordsOfOddTemplates(t *testing.T) {
	const each = `{% for m in messages %}`
	tests := map[string]struct {
		template string
		want     []string
	}{
		"no generation prompt": {
			each + `<{{ m.role }}>` + "\n" + `{{ m.content }}</s>{% endfor %}`,
			[]string{"Hello!</s>", "A bot.</s>"}},
		"something after the last turn only": {
			each + `<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>` +
				`{% else %}<|bye|>{% endif %}`,
			[]string{"Hello!<|end|>", "A bot.<|end|>"}},
		"nothing ends a turn": {
			each + `{{ m.role }}: {{ m.content }}` + "\n" + `{% endfor %}{{ 'assistant: ' if add_generation_prompt }}`,
			[]string{"Hello!", "A bot."}},
		"generation blocks": {
			each + `{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %};{% else %}` +
				`{{ m.content }}:{% endif %}{% endfor %}`,
			[]string{"Hello!", "A bot."}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tm, err := Parse(name, tt.template, nil)
			if err != nil {
				t.Fatal(err)
			}
			wantWords(t, learned(t, tm, twoTurns("", "Hello!", "A bot.")), tt.want...)
		})
	}
}

func TestWordsThatCannotBeToldAreErrors(t *testing.T) {
	tests := map[string]string{
		"the words twice":      `{% for m in messages %}{{ m.content }}{{ m.content }}{{ messages|length }}{% endfor %}`,
		"the words not at all": `{{ messages|length }}`,
		"a captured block":     `{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			tm, err := Parse(name, text, nil)
			if err != nil {
				t.Fatal(err)
			}
			if spans, err := tm.Spans(twoTurns("", "Hello!", "A bot.")); err == nil {
				t.Errorf("spans %v, want an error", spans)
			}
		})
	}
}

// A template that leaves out what the assistant says would teach a model to say nothing.
func TestATemplateWithoutTheAssistantsTextIsRefused(t *testing.T) {
	const loop = "{% for m in messages %}"
	for name, tt := range map[string]struct {
		text   string
		refuse bool
	}{
		"nothing":        {"", true},
		"the user alone": {loop + "{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", true},
		"another field": {loop + "{{ m.role }}: {{ m.text }}</s>{% endfor %}" +
			"{{ 'assistant: ' if add_generation_prompt }}", true},
		"an end alone":        {loop + "{{ m.content if m.role == 'user' }}</s>{% endfor %}", true},
		"an empty generation": {loop + "{{ m.content }}{% generation %}{% endgeneration %}{% endfor %}", true},
		"the text":            {loop + "{{ m.role }}: {{ m.content }}</s>{% endfor %}", false},
		"the text in another": {loop + "{{ m.role }}: {{ m.content | upper }}</s>{% endfor %}", false},
		"a generation":        {loop + "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", false},
	} {
		t.Run(name, func(t *testing.T) {
			tm, err := Parse("t", tt.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = tm.Spans(twoTurns("", "Hello!", "A bot."))
			if refused := errors.Is(err, errNoWords); refused != tt.refuse {
				t.Errorf("error %v, want refused: %v", err, tt.refuse)
			}
		})
	}
}
