package chat_test

import (
	"fmt"

	"github.com/seed98097648/tune/trainer/chat"
)

const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}` +
	`{% if add_generation_prompt %}<assistant>{% endif %}`

var conversation = chat.Conversation{Messages: []chat.Message{
	{Role: "user", Content: "one wug, two"}, {Role: "assistant", Content: "wugs"}}}

// A prompt, as a model's chat template writes it.
func ExampleTemplate_Render() {
	t, err := chat.Parse("chat_template", template, map[string]string{"eos_token": "|"})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Render(chat.Conversation{Messages: conversation.Messages[:1]}, true)
	fmt.Println(text, err)
	// Output: <user>one wug, two|<assistant> <nil>
}

// Of a conversation only the assistant's words are learned, and what ends them.
func ExampleTemplate_Spans() {
	t, err := chat.Parse("chat_template", template, map[string]string{"eos_token": "|"})
	if err != nil {
		fmt.Println(err)
		return
	}
	spans, err := t.Spans(conversation)
	for _, s := range spans {
		fmt.Printf("%q %t\n", s.Text, s.Learn)
	}
	fmt.Println(err)
	// Output:
	// "<user>one wug, two|<assistant>" false
	// "wugs|" true
	// <nil>
}
