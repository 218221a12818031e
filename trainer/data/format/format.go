// Package format makes texts, conversations and preferences of the rows of data files. It
// knows the layouts that these come in (Alpaca, ShareGPT, OpenAI messages, pairs of columns,
// text; chosen and rejected answers, or marked ones), tells them apart by their columns, and
// names what it refuses.
package format

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/records"
)

// Format is a way to lay out examples in columns.
type Format string

// The formats. Auto stands for the one that the columns of a file's first row tell.
const (
	Auto     Format = "auto"
	Alpaca   Format = "alpaca"   // instruction, input, output; system and history
	ShareGPT Format = "sharegpt" // conversations of from and value; system and tools
	Messages Format = "messages" // messages of role and content; tools
	Prompt   Format = "prompt"   // prompt and completion, question and answer, and the like
	Text     Format = "text"     // documents to learn whole
)

// Formats lists them all, for flags.
func Formats() []string {
	return []string{string(Auto), string(Alpaca), string(ShareGPT), string(Messages), string(Prompt), string(Text)}
}

// Layout says which columns of a file mean what. The names of columns that a row may lack
// can be empty.
type Layout struct {
	Format  Format
	Columns Columns
	Tags    Tags // of ShareGPT and Messages

	detected bool // by the columns of one row, which others of the file may have more than
}

// Columns are names of columns.
type Columns struct {
	Text     string // of Text
	Prompt   string // of Alpaca and Prompt: what the user says,
	Query    string // with this after it, if there is any
	Response string
	History  string // earlier turns: a list of pairs
	Messages string // of ShareGPT and Messages
	System   string
	Tools    string
	// Functions are Tools as OpenAI's API had them before
	Functions string
	Chosen    string // of Pairs
	Rejected  string
	Mark      string // of Marked
}

func (c Columns) list() []string {
	return []string{c.Text, c.Prompt, c.Query, c.Response, c.History, c.Messages, c.System, c.Tools, c.Functions,
		c.Chosen, c.Rejected, c.Mark}
}

// Tags are the names inside a conversation. Roles adds to the names of roles that are
// always known: it maps a name in the file to one of the role constants.
type Tags struct {
	Role, Content string
	Roles         map[string]string
}

// Example is what a row comes to.
type Example struct {
	Text string             // a document, if Chat is nil; blank ones are to be left out
	Chat *chat.Conversation // or a conversation
	Mute []bool             // which of its messages are not to be learned; nil is none

	Rejected *Example // of a pair, of which the rest is what was chosen
	Good     *bool    // the mark of an answer that has one
}

// Example reads a row. Errors do not say where it stands.
func (l Layout) Example(r records.Record) (Example, error) {
	if r.Fields == nil {
		if l.Format != Text {
			return Example{}, fmt.Errorf("plain text is not of the format %s; use corpus.Config.Format text", l.Format)
		}
		return Example{Text: r.Text}, nil
	}
	for _, column := range l.Columns.list() {
		if err := r.Broken[column]; err != nil {
			return Example{}, fmt.Errorf("field %q: %w", column, err)
		}
	}
	if l.detected {
		if err := l.refused(r); err != nil {
			return Example{}, err
		}
	}
	switch l.Format {
	case Text:
		text, err := l.required(r, l.Columns.Text)
		return Example{Text: text}, err
	case Alpaca, Prompt:
		return l.pairs(r)
	case Pairs, Marked:
		return l.preference(r)
	}
	return l.conversation(r)
}

// required returns a column that each row must have as text.
func (l Layout) required(r records.Record, column string) (string, error) {
	raw, ok := r.Fields[column]
	if !ok {
		return "", fmt.Errorf("no field %q; it has %q", column, r.Columns())
	}
	return text(column, raw)
}

// optional returns a column as text: empty if the row has none, or null.
func (l Layout) optional(r records.Record, column string) (string, error) {
	if raw, ok := r.Fields[column]; ok && string(raw) != "null" {
		return text(column, raw)
	}
	return "", nil
}

func text(column string, raw json.RawMessage) (string, error) {
	if raw[0] != '"' { // Unmarshal would take null for an empty string
		return "", fmt.Errorf("field %q is not a string but %.20s", column, raw)
	}
	var s string
	if err := plainjson.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("field %q: %w", column, err)
	}
	return s, nil
}

// list returns a column that holds a JSON array, as itself or in a string, as CSV has it.
// It is nil if the row has none, or null, or an empty string.
func (l Layout) list(r records.Record, column string) ([]any, error) {
	raw, ok := r.Fields[column]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		s, err := text(column, raw)
		if err != nil || strings.TrimSpace(s) == "" {
			return nil, err
		}
		raw = json.RawMessage(s)
	}
	v, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", column, err)
	}
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("field %q is not a list but %.20s", column, raw)
	}
	return list, nil
}

// parse reads JSON that may have stood in a string.
func parse(raw json.RawMessage) (any, error) {
	if err := plainjson.Surrogates(raw); err != nil {
		return nil, err
	}
	return chat.ParseJSON(raw)
}

// The roles of messages, as chat templates call them.
const (
	user      = "user"
	assistant = "assistant"
	system    = "system"
	tool      = "tool"
	// call is an assistant's message that calls functions; templates know it by its
	// calls.
	call = "function_call"
)

// pairs reads Alpaca and Prompt: a question and its answer, and what came before.
func (l Layout) pairs(r records.Record) (Example, error) {
	if e, ok, err := l.halves(r); ok || err != nil {
		return e, err
	}
	prompt, err := l.question(r)
	if err != nil {
		return Example{}, err
	}
	response, err := l.required(r, l.Columns.Response)
	if err != nil {
		return Example{}, err
	}
	first, err := l.optional(r, l.Columns.System)
	if err != nil {
		return Example{}, err
	}
	history, err := l.history(r)
	if err != nil {
		return Example{}, err
	}
	if strings.TrimSpace(response) == "" {
		return Example{}, fmt.Errorf("field %q is empty: there is nothing to learn", l.Columns.Response)
	}
	c := &chat.Conversation{Messages: systemMessage(first)}
	c.Messages = append(append(c.Messages, history...), chat.Message{Role: user, Content: prompt},
		chat.Message{Role: assistant, Content: response})
	if c.Tools, err = l.tools(r); err != nil {
		return Example{}, err
	}
	return Example{Chat: c}, nil
}

// halves reads a prompt and an answer that are both messages, of which the answer's alone are learned; ok is false if
// they are not.
func (l Layout) halves(r records.Record) (e Example, ok bool, err error) {
	if _, _, ok, err := l.messagesIn(r, l.Columns.Prompt); err != nil || !ok {
		return e, false, err
	}
	answer, mute, ok, err := l.messagesIn(r, l.Columns.Response)
	if err != nil || !ok {
		return e, false, err
	}
	said, err := l.said(r)
	if err != nil {
		return e, false, err
	}
	tools, err := l.tools(r)
	if err != nil {
		return e, false, err
	}
	e = lastLearned(append(said, answer...), len(said), tools)
	learn := false
	for i, m := range answer {
		if mute[i] {
			e.mute(len(said) + i)
		}
		learn = learn || m.Role == assistant && !mute[i]
	}
	if !learn {
		return e, false, fmt.Errorf("field %q: no message of the assistant to learn", l.Columns.Response)
	}
	return e, true, nil
}

// alone checks that nothing stands beside a prompt that has all that was said before.
func (l Layout) alone(r records.Record) error {
	query, err := l.optional(r, l.Columns.Query)
	if err != nil {
		return err
	}
	history, err := l.history(r)
	switch {
	case err != nil:
		return err
	case query != "":
		return fmt.Errorf("field %q: field %q is a list of messages: put it there", l.Columns.Query, l.Columns.Prompt)
	case len(history) > 0:
		return fmt.Errorf("field %q: field %q is a list of messages: put it there", l.Columns.History, l.Columns.Prompt)
	}
	return nil
}

// mute keeps a message from being learned.
func (e *Example) mute(i int) {
	if e.Mute == nil {
		e.Mute = make([]bool, len(e.Chat.Messages))
	}
	e.Mute[i] = true
}

// question reads what the user says last.
func (l Layout) question(r records.Record) (string, error) {
	prompt, err := l.required(r, l.Columns.Prompt)
	if err != nil {
		return "", err
	}
	query, err := l.optional(r, l.Columns.Query)
	if prompt != "" && query != "" {
		prompt += "\n"
	}
	return prompt + query, err
}

func systemMessage(text string) []chat.Message {
	if text == "" {
		return nil
	}
	return []chat.Message{{Role: system, Content: text}}
}

// history reads earlier turns: [["question", "answer"], ...].
func (l Layout) history(r records.Record) ([]chat.Message, error) {
	turns, err := l.list(r, l.Columns.History)
	if err != nil {
		return nil, err
	}
	var messages []chat.Message
	for i, turn := range turns {
		pair, _ := turn.([]any)
		var texts [2]string
		isText := len(pair) == len(texts)
		for k := range texts {
			if isText {
				texts[k], isText = pair[k].(string)
			}
		}
		if !isText {
			return nil, fmt.Errorf("field %q: turn %d is not a pair of strings", l.Columns.History, i+1)
		}
		messages = append(messages, chat.Message{Role: user, Content: texts[0]},
			chat.Message{Role: assistant, Content: texts[1]})
	}
	return messages, nil
}
