package serve

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/seed98097648/tune/trainer/chat"
)

// prompt returns a conversation, and its text up to where the answer begins.
func (q *chatRequest) prompt(m *Model) (c chat.Conversation, text string, err error) {
	if m.Template == nil {
		return c, "", badRequest("model", "the model %q has no chat template: ask it by /v1/completions, or start "+
			"the server with --template", m.Name)
	}
	if c, err = q.conversation(); err != nil {
		return c, "", err
	}
	c = m.Template.Fit(c)
	if text, err = m.Template.Render(c, true); err != nil {
		return c, "", badRequest("messages", "%v", err)
	}
	return c, text, nil
}

// whole refuses what a template leaves out without a word, unless the client has gone.
func whole(ctx context.Context, t *chat.Template, c chat.Conversation, text string) error {
	if ctx.Err() != nil {
		return errGone
	}
	err := t.Whole(c, text)
	if errors.Is(err, chat.ErrNoTools) {
		return badRequest("tools", "%v", err)
	}
	if err != nil {
		return badRequest("messages", "%v", err)
	}
	return nil
}

// conversation returns what the template renders.
func (q *chatRequest) conversation() (c chat.Conversation, err error) {
	if c.Messages, err = chat.FromAPI(q.Messages); err != nil {
		return c, badRequest("messages", "%v", err)
	}
	c.Vars = map[string]any{}
	for name, v := range q.TemplateArguments {
		if slices.Contains([]string{"messages", "tools", "add_generation_prompt"}, name) {
			return c, badRequest("chat_template_kwargs", "chat_template_kwargs has %s, which the request itself says", name)
		}
		if c.Vars[name], err = chat.ParseJSON(v); err != nil {
			return c, badRequest("chat_template_kwargs", "chat_template_kwargs.%s: %v", name, err)
		}
	}
	c.Tools, err = q.tools()
	return c, err
}

// tools returns those that the model may call.
func (q *chatRequest) tools() ([]any, error) {
	list, err := chat.ToolsFromAPI(q.Tools)
	if err != nil {
		return nil, badRequest("tools", "%v", err)
	}
	switch string(bytes.TrimSpace(q.ToolChoice)) {
	case "", "null", `"auto"`:
		return list, nil
	case `"none"`:
		return nil, nil
	}
	return nil, badRequest("tool_choice", `tool_choice is "auto" or "none": a model cannot be made to call a tool here`)
}
