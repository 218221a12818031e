package gguf

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

// Modelfile returns the text of a Modelfile of Ollama, which will be at path, for the file of a model: where that is,
// how it samples, where its texts end, and its chat template in the language that Ollama has for that, if it can be
// said there. Then the second result is empty; else it says why not.
func Modelfile(model, file, path string) (text, without string, err error) {
	from, err := seenFrom(path, file)
	if err != nil {
		return "", "", err
	}
	tok, err := tokenizer.Load(model)
	if err != nil {
		return "", "", err
	}
	d, err := generate.LoadDefaults(model)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", from)
	fmt.Fprintf(&b, "PARAMETER temperature %g\n", d.Sampling.Temperature)
	for _, p := range []struct {
		name  string
		value float64
		off   float64
	}{{"top_k", float64(d.Sampling.TopK), 0}, {"top_p", d.Sampling.TopP, 1}, {"min_p", d.Sampling.MinP, 0},
		{"repeat_penalty", d.Sampling.RepetitionPenalty, 1}} {
		if p.value != p.off {
			fmt.Fprintf(&b, "PARAMETER %s %g\n", p.name, p.value)
		}
	}
	for _, id := range d.EOS {
		if end, ok := tok.Token(id); ok {
			fmt.Fprintf(&b, "PARAMETER stop %q\n", end)
		}
	}
	t, err := chat.Load(model)
	if errors.Is(err, chat.ErrNoTemplate) {
		return b.String() + "TEMPLATE \"\"\"{{ .Prompt }}\"\"\"\n", "", nil
	}
	if err != nil {
		return "", "", err
	}
	bos := ""
	if before, _ := surrounding(tok); len(before) == 1 { // put before every text anyway
		bos, _ = tok.Token(before[0])
	}
	form, err := lasting(t, bos)
	if err != nil {
		return b.String(), err.Error(), nil
	}
	return b.String() + "TEMPLATE \"\"\"" + form + "\"\"\"\n", "", nil
}

// seenFrom returns how a Modelfile names a file: from its own folder or, on another drive, in full. What does not
// begin as a path would be the name of a model.
func seenFrom(modelfile, file string) (string, error) {
	folder, err := filepath.Abs(filepath.Dir(modelfile))
	if err != nil {
		return "", err
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return "", err
	}
	near, err := filepath.Rel(folder, file)
	switch {
	case err != nil:
		return filepath.ToSlash(file), nil
	case filepath.IsLocal(near):
		return "./" + filepath.ToSlash(near), nil
	}
	return filepath.ToSlash(near), nil
}

// What stands for the words of a conversation while its form is looked for.
const (
	markSystem = "\uE001system\uE001"
	markUser   = "\uE001user\uE001"
	markAnswer = "\uE001answer\uE001"
	markAgain  = "\uE001again\uE001"
)

// lasting is newForm of a template that writes the same on any day.
func lasting(t *chat.Template, bos string) (string, error) {
	var forms [2]string
	for i, now := range []time.Time{ // which have nothing in common, by whatever a template writes of them
		time.Date(2001, time.February, 3, 4, 5, 6, 7e6, time.UTC),
		time.Date(2010, time.November, 12, 13, 14, 15, 16e6, time.UTC),
	} {
		then := *t
		then.Now = func() time.Time { return now }
		form, err := newForm(&then, bos)
		if err != nil {
			return "", err
		}
		forms[i] = form
	}
	if forms[0] != forms[1] {
		return "", errors.New("the chat template writes the date or the time, and the Modelfile would keep that of now")
	}
	return forms[0], nil
}

// newForm returns the chat template in Ollama's language, which is that of text/template with .Messages, of which
// each has .Role and .Content. It is found by writing conversations with the template, and must give the same texts
// for others.
func newForm(t *chat.Template, bos string) (string, error) {
	render := func(prompt bool, m ...chat.Message) string {
		text, err := t.Render(chat.Conversation{Messages: m}, prompt)
		if err != nil {
			return ""
		}
		return strings.TrimPrefix(text, bos)
	}
	user, answer := chat.Message{Role: "user", Content: markUser}, chat.Message{Role: "assistant", Content: markAnswer}
	again, system := chat.Message{Role: "user", Content: markAgain}, chat.Message{Role: "system", Content: markSystem}
	begin, afterUser, ok := strings.Cut(render(false, user), markUser)
	asked := render(true, user)
	turns := render(false, user, answer, again)
	_, rest, ok2 := strings.Cut(turns, markUser)
	toAnswer, rest, ok3 := strings.Cut(rest, markAnswer)
	toUser, _, ok4 := strings.Cut(rest, markAgain)
	whole := render(false, system, user)
	beforeSystem, rest, ok5 := strings.Cut(whole, markSystem)
	afterSystem, _, ok6 := strings.Cut(rest, markUser)
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !strings.HasPrefix(toAnswer, afterUser) {
		return "", errors.New("the chat template is not one turn after the other")
	}
	n := 0
	for n < len(begin) && n < len(toUser) && n < len(afterSystem) && begin[len(begin)-1-n] == toUser[len(toUser)-1-n] &&
		begin[len(begin)-1-n] == afterSystem[len(afterSystem)-1-n] {
		n++
	}
	beforeUser := begin[len(begin)-n:]
	prompt := strings.TrimPrefix(asked, begin+markUser+afterUser)
	form := `{{ if ne (index .Messages 0).Role "system" }}` + begin[:len(begin)-n] + `{{ end }}{{ range .Messages }}` +
		`{{ if eq .Role "system" }}` + beforeSystem + `{{ .Content }}` + afterSystem[:len(afterSystem)-n] +
		`{{ else if eq .Role "user" }}` + beforeUser + `{{ .Content }}` + afterUser +
		`{{ else if eq .Role "assistant" }}` + strings.TrimPrefix(toAnswer, afterUser) + `{{ .Content }}` +
		toUser[:len(toUser)-n] + `{{ end }}{{ end }}` + prompt
	if strings.Contains(begin+beforeSystem+afterSystem+turns+asked, "{{") || strings.Contains(form, `"""`) {
		return "", errors.New("the chat template writes braces or quotes that a Modelfile cannot")
	}
	plain := func(role, text string) chat.Message { return chat.Message{Role: role, Content: text} }
	for _, m := range [][]chat.Message{
		{plain("user", "Hello?")},
		{plain("system", "Be brief."), plain("user", "What is it?")},
		{plain("user", "One"), plain("assistant", "Two"), plain("user", "Three")},
		{plain("system", "S"), plain("user", "1"), plain("assistant", "2"), plain("user", "3"), plain("assistant", "4"),
			plain("user", "5")},
	} {
		if got, want := execute(form, m), render(true, m...); want == "" || got != want {
			return "", fmt.Errorf("the chat template is more than one turn after the other: %q would be %q", want, got)
		}
	}
	return form, nil
}

// execute writes a conversation as Ollama does.
func execute(form string, messages []chat.Message) string {
	t, err := template.New("").Parse(form)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	if err := t.Execute(&b, map[string]any{"Messages": messages}); err != nil {
		return err.Error()
	}
	return b.String()
}
