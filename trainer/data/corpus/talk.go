package corpus

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/format"
)

// Talk says what becomes of conversations before the chat template writes them.
type Talk struct {
	// MaskHistory learns the last answer of a conversation alone.
	MaskHistory bool `json:"mask_history,omitempty"`
	// System is the system prompt of conversations that have none; empty for none.
	System string `json:"system,omitempty"`
	// TemplateArgs are variables of the chat template, as name=value, such as
	// enable_thinking=false. A value is JSON; what is not, is a text.
	TemplateArgs []string `json:"template_args,omitempty"`
}

// Validate reports the field that makes no sense.
func (t Talk) Validate() error {
	_, err := t.Vars()
	return err
}

// Vars returns the variables of the chat template.
func (t Talk) Vars() (map[string]any, error) {
	vars := map[string]any{}
	for _, arg := range t.TemplateArgs {
		name, text, ok := strings.Cut(arg, "=")
		_, twice := vars[name]
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("corpus.Talk.TemplateArgs: %q: want name=value, such as enable_thinking=false", arg)
		case slices.Contains(reserved, name):
			return nil, fmt.Errorf("corpus.Talk.TemplateArgs: %q: every conversation has its own %s", arg, name)
		case twice:
			return nil, fmt.Errorf("corpus.Talk.TemplateArgs has %s twice", name)
		}
		value, err := chat.ParseJSON([]byte(text))
		if err != nil {
			value = text
		}
		vars[name] = value
	}
	return vars, nil
}

// reserved are variables that are no setting.
var reserved = []string{"messages", "tools", "add_generation_prompt"}

// apply changes a conversation.
func (t Talk) apply(e *format.Example, vars map[string]any) error {
	c := e.Chat
	if len(vars) > 0 {
		c.Vars = vars
	}
	if t.System != "" && (len(c.Messages) == 0 || !slices.Contains(systemRoles, c.Messages[0].Role)) {
		c.Messages = append([]chat.Message{{Role: "system", Content: t.System}}, c.Messages...)
		if e.Mute != nil {
			e.Mute = append([]bool{false}, e.Mute...)
		}
	}
	if !t.MaskHistory {
		return nil
	}
	last := -1
	for i, m := range c.Messages {
		if m.Role == "assistant" {
			last = i
		}
	}
	if last < 0 {
		return errors.New("corpus.Talk.MaskHistory learns the last answer, but the conversation has none")
	}
	mute := make([]bool, len(c.Messages))
	for i := range mute {
		mute[i] = i != last || e.Mute != nil && e.Mute[i]
	}
	e.Mute = mute
	return nil
}

// systemRoles are what the message with a system prompt may be called.
var systemRoles = []string{"system", "developer"}
