package format

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/records"
)

// The formats of preferences. What was said before an answer is laid out as in the other formats.
const (
	Pairs  Format = "pairs"  // a chosen and a rejected answer to one prompt
	Marked Format = "marked" // one answer, with a mark that says whether it is good
)

const knownPreferences = "chosen and rejected, beside instruction and input, prompt, conversations or messages, or " +
	"each with its prompt (pairs); an answer and label or kto_tag (marked)"

// DetectPreference is Detect for data of preferences: of marked answers, or of pairs.
func DetectPreference(marked bool, r records.Record) (Layout, error) {
	c := optionalColumns()
	var err error
	if marked {
		c.Mark, err = one(r, []string{"kto_tag", "label"})
	} else if c.Chosen, c.Rejected = answerColumns(r); c.Chosen == "" {
		err = errors.New("no chosen and rejected")
	}
	l := Layout{Format: Pairs, Columns: c, detected: true}
	if marked {
		l.Format = Marked
	}
	if err == nil && marked && c.Mark == "" {
		err = errors.New("no label or kto_tag")
	}
	if err == nil {
		err = l.findPrompt(r)
	}
	if err != nil && len(r.Columns()) == 0 {
		return Layout{}, fmt.Errorf("a text has no columns for preferences; known: %s", knownPreferences)
	}
	if err != nil {
		return Layout{}, fmt.Errorf("the columns %q are not those of preferences: %w; known: %s", r.Columns(), err,
			knownPreferences)
	}
	return l, nil
}

func answerColumns(r records.Record) (chosen, rejected string) {
	for _, suffix := range []string{"", "_messages"} {
		chosen, rejected = "chosen"+suffix, "rejected"+suffix
		_, isChosen := r.Fields[chosen]
		if _, isRejected := r.Fields[rejected]; isChosen && isRejected {
			return chosen, rejected
		}
	}
	return "", ""
}

// findPrompt names the columns of what was said before, and of a marked answer the answer.
func (l *Layout) findPrompt(r records.Record) (err error) {
	c := &l.Columns
	if c.Messages, err = one(r, names.chats); err != nil || c.Messages != "" {
		return err
	}
	if _, ok := r.Fields["instruction"]; ok {
		c.Prompt, c.Query = "instruction", "input"
	} else if c.Prompt, err = one(r, names.prompts); err != nil {
		return err
	}
	if l.Format == Pairs {
		return nil // without a prompt, each answer has its own
	}
	if c.Response, err = one(r, names.responses); err == nil && (c.Response == "" || c.Prompt == "") {
		err = errors.New("no prompt or no answer")
	}
	return err
}

// DescribedPreference is Described for data of preferences.
func DescribedPreference(formatting string, columns, tags map[string]string, r records.Record) (Layout, error) {
	l, err := Described(formatting, columns, tags, r)
	if err != nil {
		return l, err
	}
	isChat := l.Format == ShareGPT
	if l.Columns = described(columns); !isChat {
		l.Columns.Messages = ""
	}
	if l.Columns.Mark = columns["kto_tag"]; l.Columns.Mark != "" {
		l.Format = Marked
		return l, nil
	}
	l.Format = Pairs
	l.Columns.Chosen, l.Columns.Rejected = cmp.Or(columns["chosen"], "chosen"), cmp.Or(columns["rejected"], "rejected")
	return l, nil
}

// preference reads a row of a pair or of a marked answer. Only the last answer is learned.
func (l Layout) preference(r records.Record) (Example, error) {
	prompt, err := l.said(r)
	if err != nil {
		return Example{}, err
	}
	tools, err := l.tools(r)
	if err != nil {
		return Example{}, err
	}
	if l.Format == Marked {
		return l.marked(r, prompt, tools)
	}
	chosen, err := l.answer(r, l.Columns.Chosen, prompt)
	if err != nil {
		return Example{}, err
	}
	rejected, err := l.answer(r, l.Columns.Rejected, prompt)
	if err != nil {
		return Example{}, err
	}
	common := 0
	for common+1 < min(len(chosen), len(rejected)) && reflect.DeepEqual(chosen[common], rejected[common]) {
		common++
	}
	e, worse := lastLearned(chosen, common, tools), lastLearned(rejected, common, tools)
	e.Rejected = &worse
	return e, errors.Join(learns(e, l.Columns.Chosen), learns(worse, l.Columns.Rejected))
}

// marked reads a marked answer.
func (l Layout) marked(r records.Record, said []chat.Message, tools []any) (Example, error) {
	if l.Columns.Messages == "" {
		var err error
		if said, err = l.answer(r, l.Columns.Response, said); err != nil {
			return Example{}, err
		}
	}
	raw, ok := r.Fields[l.Columns.Mark]
	if !ok {
		return Example{}, fmt.Errorf("no field %q; it has %q", l.Columns.Mark, r.Columns())
	}
	var good bool
	switch word(raw) {
	case "true", "1":
		good = true
	case "false", "0":
	default:
		return Example{}, fmt.Errorf("field %q is neither true nor false but %.20s", l.Columns.Mark, raw)
	}
	e := lastLearned(said, len(said)-1, tools)
	e.Good = &good
	return e, learns(e, l.Columns.Messages+l.Columns.Response)
}

// said reads what was said before the answer, and where the column of messages has it the answer.
func (l Layout) said(r records.Record) ([]chat.Message, error) {
	first, err := l.optional(r, l.Columns.System)
	if err != nil {
		return nil, err
	}
	messages := systemMessage(first)
	if l.Columns.Messages != "" {
		list, err := l.list(r, l.Columns.Messages)
		if err != nil {
			return nil, err
		}
		turns, _, err := l.turns(l.Columns.Messages, list)
		return withSystem(messages, turns), err
	}
	if l.Columns.Prompt == "" {
		return messages, nil
	}
	if turns, _, ok, err := l.messagesIn(r, l.Columns.Prompt); ok || err != nil {
		return withSystem(messages, turns), cmp.Or(err, l.alone(r))
	}
	history, err := l.history(r)
	if err != nil {
		return nil, err
	}
	prompt, err := l.question(r)
	return append(append(messages, history...), chat.Message{Role: user, Content: prompt}), err
}

// withSystem puts turns after a system message, unless they have their own.
func withSystem(messages, turns []chat.Message) []chat.Message {
	if len(turns) > 0 && turns[0].Role == system {
		return turns
	}
	return append(messages, turns...)
}

// answer reads an answer, a text, a message or a list of messages, and returns it after what was
// said before. A list that the user or a system prompt begins has all of that itself, but for a system prompt of
// another column.
func (l Layout) answer(r records.Record, column string, said []chat.Message) ([]chat.Message, error) {
	raw, ok := r.Fields[column]
	if !ok {
		return nil, fmt.Errorf("no field %q; it has %q", column, r.Columns())
	}
	said = said[:len(said):len(said)]
	turns, _, ok, err := l.messagesIn(r, column)
	switch {
	case err != nil:
		return nil, err
	case !ok || raw[0] == '"' && !goesOn(said, turns):
		s, err := text(column, raw)
		if len(said) == 0 && err == nil {
			err = fmt.Errorf("field %q is a text, but there is no prompt: name its column prompt", column)
		}
		return append(said, chat.Message{Role: assistant, Content: s}), err
	case len(turns) == 0 || turns[0].Role == assistant || turns[0].Role == tool:
		return append(said, turns...), nil
	case len(said) > 0 && said[0].Role == system:
		return withSystem(said[:1:1], turns), nil
	}
	return turns, nil
}

// goesOn reports whether messages, which a text has as JSON, follow what was said or have it themselves; else that
// JSON is what is said.
func goesOn(said, turns []chat.Message) bool {
	if len(said) == 0 || len(turns) > 0 && turns[0].Role == assistant {
		return true
	}
	last := said[len(said)-1]
	return slices.ContainsFunc(turns, func(m chat.Message) bool {
		return m.Role == last.Role && m.Content == last.Content
	})
}

// messagesIn reads a column that has a list of messages or a single one, or the JSON of that in a string, as CSV has
// it, with those that are not to be learned; ok tells it from a text, which may be any other JSON.
func (l Layout) messagesIn(r records.Record, column string) (turns []chat.Message, mute []bool, ok bool, err error) {
	raw := r.Fields[column]
	inText := len(raw) > 0 && raw[0] == '"'
	if inText {
		s, _ := text(column, raw) // records has found that it is a string
		raw = json.RawMessage(strings.TrimSpace(s))
	}
	if len(raw) == 0 || raw[0] != '[' && raw[0] != '{' {
		return nil, nil, false, nil
	}
	v, err := parse(raw)
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	if err == nil {
		turns, mute, err = l.turns(column, list)
	}
	if inText {
		ok = err == nil && len(turns) > 0
		return turns, mute, ok, nil
	}
	return turns, mute, err == nil, err
}

// turns reads messages of a column, with those that are not to be learned; their tags are those of the first, unless
// they are given.
func (l Layout) turns(column string, list []any) (messages []chat.Message, mute []bool, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	if first, ok := list[0].(*chat.Object); ok && l.Tags.Role == "" {
		l.Tags = Tags{Role: "role", Content: "content"}
		if _, ok := first.Get("from"); ok {
			l.Tags = Tags{Role: "from", Content: "value"}
		}
	}
	for i, v := range list {
		m, muted, err := l.message(v)
		if err != nil {
			return nil, nil, fmt.Errorf("field %q: message %d: %w", column, i+1, err)
		}
		messages, mute = append(messages, m), append(mute, muted)
	}
	return messages, mute, nil
}

// lastLearned is a conversation of which only what comes after so many messages is learned.
func lastLearned(messages []chat.Message, before int, tools []any) Example {
	e := Example{Chat: &chat.Conversation{Messages: messages, Tools: tools}}
	for i, m := range messages {
		if i < before && m.Role == assistant {
			e.mute(i)
		}
	}
	return e
}

// learns reports a conversation that the assistant does not end.
func learns(e Example, column string) error {
	m := e.Chat.Messages
	if n := len(m); n < 2 || m[n-1].Role != assistant {
		return fmt.Errorf("field %q: the last message is not an answer of the assistant", column)
	}
	return nil
}
