package format

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/records"
)

// ErrPreference is what is wrong with data of preferences for training on answers to follow: there are
// no single right ones in it.
var ErrPreference = errors.New("to train on preferences, choose a stage with preference.Config.Stage")

// names are the columns that a meaning is looked for in, for each part of a layout.
var names = struct{ prompts, responses, chats []string }{
	prompts:   []string{"prompt", "question", "query"},
	responses: []string{"completion", "response", "answer", "output"},
	chats:     []string{"messages", "conversations", "conversation"},
}

const knownFormats = "instruction and output (alpaca), conversations (sharegpt), messages, prompt and completion, " +
	"question and answer, text"

// Detect tells the layout of a file from its first row. A format other than Auto is taken
// as given, and only its columns are looked for. Errors name the columns and the remedy.
func Detect(f Format, r records.Record) (Layout, error) {
	if r.Fields == nil {
		if f != Auto && f != Text {
			return Layout{}, fmt.Errorf("plain text is not of the format %s; use corpus.Config.Format text", f)
		}
		return Layout{Format: Text}, nil
	}
	if f == Auto {
		if err := (Layout{}).refused(r); err != nil {
			return Layout{}, err
		}
	}
	var found []Layout
	var errs []error
	for _, try := range []func(records.Record) (Layout, error){alpaca, conversations, prompt, document} {
		l, err := try(r)
		switch {
		case err != nil:
			errs = append(errs, err)
		case l.Format != "" && (f == Auto || l.Format == f):
			found = append(found, l)
		}
	}
	switch {
	case len(found) == 1:
		found[0].detected = f == Auto
		return found[0], nil
	case len(found) > 1:
		var formats []string
		for _, l := range found {
			formats = append(formats, string(l.Format))
		}
		return Layout{}, fmt.Errorf("the columns %q could be of the formats %s; choose one with corpus.Config.Format",
			r.Columns(), strings.Join(formats, " or "))
	case len(errs) > 0:
		return Layout{}, errs[0]
	case f != Auto:
		return Layout{}, fmt.Errorf("the columns %q are not those of the format %s; known: %s", r.Columns(), f,
			knownFormats)
	}
	hint := ""
	if columns := r.Columns(); len(columns) == 1 && strings.ContainsAny(columns[0], ";\t") {
		hint = " (commas separate the columns of CSV)"
	}
	return Layout{}, fmt.Errorf("the columns %q are of no known format%s; known: %s; rename the columns, or name them "+
		"in a dataset_info.json and give corpus.Config.Dir", r.Columns(), hint, knownFormats)
}

// refused recognizes data for other kinds of training: a row that has more than the columns of the layout.
func (l Layout) refused(r records.Record) error {
	for _, media := range []string{"image", "images", "video", "videos", "audio", "audios"} {
		raw := string(r.Fields[media])
		if r.Broken[media] != nil || raw != "" && raw != "null" && raw != "[]" && raw != `""` {
			return fmt.Errorf("column %q: only text can be trained on", media)
		}
	}
	if l.Format == Pairs || l.Format == Marked {
		return nil
	}
	if chosen, rejected := answerColumns(r); chosen != "" {
		return fmt.Errorf("columns %q and %q: these are preference pairs (dpo, orpo, simpo): %w", chosen, rejected,
			ErrPreference)
	}
	_, tagged := r.Fields["kto_tag"]
	_, isText := r.Fields["text"] // of which a label is a class
	if label := word(r.Fields["label"]); tagged || !isText && (label == "true" || label == "false") {
		return fmt.Errorf("columns %q: these are answers marked good or bad (kto): %w; with corpus.Config.Format all are "+
			"learned", r.Columns(), ErrPreference)
	}
	return nil
}

// word is a value in small letters, without the quotes that all of CSV has.
func word(raw json.RawMessage) string { return strings.ToLower(strings.Trim(string(raw), `"`)) }

// one returns the only one of the names that the row has; "" if it has none.
func one(r records.Record, names []string) (string, error) {
	var found []string
	for _, name := range names {
		if _, ok := r.Fields[name]; ok {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("the columns %q mean the same; leave one, or name the right one in a dataset_info.json and "+
		"give corpus.Config.Dir", found)
}

// optionalColumns are looked for in every row, under these names.
func optionalColumns() Columns {
	return Columns{System: "system", Tools: "tools", Functions: "functions", History: "history"}
}

func alpaca(r records.Record) (Layout, error) {
	if _, ok := r.Fields["instruction"]; !ok {
		return Layout{}, nil
	}
	response, err := one(r, []string{"output", "response"})
	if response == "" {
		return Layout{}, err
	}
	c := optionalColumns()
	c.Prompt, c.Query, c.Response = "instruction", "input", response
	if _, ok := r.Fields["context"]; ok {
		if c.Query, err = one(r, []string{"input", "context"}); err != nil {
			return Layout{}, err
		}
	}
	return Layout{Format: Alpaca, Columns: c}, nil
}

func prompt(r records.Record) (Layout, error) {
	if _, ok := r.Fields["instruction"]; ok { // then "output" belongs to it
		return Layout{}, nil
	}
	prompt, err := one(r, names.prompts)
	if prompt == "" {
		return Layout{}, err
	}
	response, err := one(r, names.responses)
	if response == "" {
		return Layout{}, err
	}
	c := optionalColumns()
	c.Prompt, c.Response = prompt, response
	return Layout{Format: Prompt, Columns: c}, nil
}

func document(r records.Record) (Layout, error) {
	if _, ok := r.Fields["text"]; !ok {
		return Layout{}, nil
	}
	return Layout{Format: Text, Columns: Columns{Text: "text"}}, nil
}

func conversations(r records.Record) (Layout, error) {
	column, err := one(r, names.chats)
	if column == "" {
		return Layout{}, err
	}
	c := optionalColumns()
	c.Messages = column
	l := Layout{Columns: c}
	messages, err := l.list(r, column)
	if err != nil {
		return Layout{}, err
	}
	first := new(chat.Object)
	if len(messages) > 0 {
		first, _ = messages[0].(*chat.Object)
	}
	for _, form := range []Layout{{Format: ShareGPT, Tags: Tags{Role: "from", Content: "value"}},
		{Format: Messages, Tags: Tags{Role: "role", Content: "content"}}} {
		if _, ok := first.Get(form.Tags.Role); ok {
			l.Format, l.Tags = form.Format, form.Tags
			return l, nil
		}
	}
	return Layout{}, fmt.Errorf("column %q is not a list of messages with from and value, or role and content, but "+
		"%.40s; name the tags in a dataset_info.json and give corpus.Config.Dir", column, r.Fields[column])
}

// described returns the columns, with LLaMA-Factory's defaults.
func described(columns map[string]string) Columns {
	return Columns{System: columns["system"], Tools: columns["tools"], History: columns["history"],
		Prompt: cmp.Or(columns["prompt"], "instruction"), Query: cmp.Or(columns["query"], "input"),
		Response: cmp.Or(columns["response"], "output"), Messages: cmp.Or(columns["messages"], "conversations")}
}

// Described returns the layout that LLaMA-Factory's dataset_info.json gives with its
// formatting, columns and tags, for a file with this first row. Names that it does not
// give have its defaults.
func Described(formatting string, columns, tags map[string]string, r records.Record) (Layout, error) {
	c := described(columns)
	switch formatting {
	case "", "alpaca":
		if r.Fields == nil {
			return Layout{Format: Text}, nil
		}
		if _, ok := r.Fields[c.Response]; !ok && columns["response"] == "" && columns["prompt"] != "" {
			return Layout{Format: Text, Columns: Columns{Text: c.Prompt}}, nil // as for pre-training
		}
		c.Messages = ""
		return Layout{Format: Alpaca, Columns: c}, nil
	case "sharegpt":
		t := Tags{Role: cmp.Or(tags["role_tag"], "from"), Content: cmp.Or(tags["content_tag"], "value"),
			Roles: map[string]string{}}
		for _, of := range [][2]string{{"user_tag", user}, {"assistant_tag", assistant}, {"observation_tag", tool},
			{"function_tag", call}, {"system_tag", system}} { // in order, for two tags may be one
			if given := tags[of[0]]; given != "" {
				t.Roles[given] = of[1]
			}
		}
		return Layout{Format: ShareGPT, Columns: c, Tags: t}, nil
	}
	return Layout{}, fmt.Errorf("formatting is %q; want alpaca or sharegpt", formatting)
}
