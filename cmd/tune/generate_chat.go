package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/generate"
)

// chatFlags are the flags of generate that make a conversation of it.
type chatFlags struct {
	on               bool
	system, template string
	args             corpus.Talk // its TemplateArgs
}

func (f *chatFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&f.on, "chat", false, "talk with the model, a line at a time, in the form of its chat template; with "+
		"--prompt, ask that alone")
	s.StringVar(&f.system, "system", "", "a `TEXT` that tells the model how to behave in the conversation")
	s.StringVar(&f.template, "template", "", "the built-in chat template with this `NAME`, instead of the model's: "+
		strings.Join(chat.Names(), ", "))
	addTemplateArgs(s, &f.args.TemplateArgs)
}

// check validates what needs no file.
func (f *chatFlags) check(c *Command) error {
	if !f.on && !c.Flags.Changed("prompts") {
		if err := f.unused(c); err != nil {
			return err
		}
	}
	if err := f.args.Validate(); err != nil {
		return c.misuse(err)
	}
	if f.template != "" {
		return c.oneOf("template", f.template, chat.Names()...)
	}
	return nil
}

// unused refuses flags of conversations where there are none.
func (f *chatFlags) unused(c *Command) error {
	for _, flag := range []string{"system", "template", "template-args"} {
		if c.Flags.Changed(flag) {
			return c.usagef("--%s is for conversations: give --chat, too", flag)
		}
	}
	return nil
}

// conversation is a model that answers.
type conversation struct {
	*writing
	template *chat.Template
	first    []chat.Message // what each conversation begins with
	messages []chat.Message
	vars     map[string]any // of the template
	asked    int
	missed   int // of these, without an answer
}

func (a *app) newConversation(w *writing, f *chatFlags, t *chat.Template) (*conversation, error) {
	c := &conversation{writing: w, template: t}
	var err error
	if c.vars, err = f.args.Vars(); err != nil {
		return nil, err
	}
	a.noteMissing(f.template, c.template.Missing(w.tokenizer.Encode))
	if f.system != "" {
		c.first = []chat.Message{{Role: "system", Content: f.system}}
	}
	c.messages = slices.Clone(c.first)
	// A turn ends with the tokenizer's end token, whatever ends a text.
	if id, ok := w.tokenizer.EOS(); ok && !slices.Contains(w.options.EOS, id) {
		w.options.EOS = append(w.options.EOS, id)
	}
	return c, nil
}

// prompt returns the tokens of the conversation so far and of a question, up to where the
// answer begins. The template writes the special tokens itself.
func (c *conversation) prompt(question string) ([]int32, error) {
	text, err := c.template.Render(chat.Conversation{Messages: c.with("user", question), Vars: c.vars}, true)
	if err != nil {
		return nil, err
	}
	return c.tokenizer.Encode(text, false), nil
}

func (c *conversation) with(role, text string) []chat.Message {
	return append(slices.Clip(c.messages), chat.Message{Role: role, Content: text})
}

// ask adds a question and its answer to the conversation, and hands the answer on as it
// comes. After an error, or an interrupt, the conversation is as before.
func (c *conversation) ask(ctx context.Context, question string, emit func(string) error) (*generate.Result, error) {
	ids, err := c.prompt(question)
	if err != nil {
		return nil, err
	}
	o, begun := c.options, false
	o.Emit = func(text string) error {
		if !begun { // some tokenizers begin every word with a space
			text = strings.TrimLeft(text, " ")
		}
		begun = begun || text != ""
		return emit(text)
	}
	r, err := generate.Run(ctx, c.session, c.tokenizer, ids, o)
	if err == nil && r.Reason != generate.Interrupted {
		c.messages = c.with("user", question)
		c.messages = c.with("assistant", strings.TrimSpace(r.Text))
	}
	return r, err
}

const chatHelp = `Each line is a question. /reset begins another conversation, /exit or the end of
the input ends it, and Ctrl-C ends it at once.
`

// talk asks the lines of standard input. Nobody may be there to read notes: it fails after the other answers if a
// question of a file or pipe has none.
func (a *app) talk(ctx context.Context, c *conversation, quiet bool) error {
	terminal := term.IsTerminal(int(os.Stdin.Fd()))
	if terminal && !quiet {
		fmt.Fprint(a.stderr, chatHelp)
	}
	err := a.talkLines(ctx, c, terminal, quiet)
	if err == nil && c.missed > 0 && !terminal {
		return fmt.Errorf("%d of %s without an answer, whose line is empty", c.missed, amount.Of(c.asked, "question"))
	}
	return err
}

func (a *app) talkLines(ctx context.Context, c *conversation, terminal, quiet bool) error {
	lines, failed := readLines(os.Stdin)
	for {
		if terminal {
			fmt.Fprint(a.stderr, "> ")
		}
		var line string
		select {
		case l, ok := <-lines:
			if !ok {
				if terminal {
					fmt.Fprintln(a.stderr) // the prompt's line is not at its end
				}
				return <-failed
			}
			line = strings.TrimSpace(l)
		case <-ctx.Done():
			fmt.Fprintln(a.stderr)
			return errStopped
		}
		switch line {
		case "":
			continue
		case "/help":
			fmt.Fprint(a.stderr, chatHelp)
			continue
		case "/exit":
			return nil
		case "/reset":
			c.messages = slices.Clone(c.first)
			continue
		}
		if err := a.answer(ctx, c, line, terminal, quiet); err != nil {
			return err
		}
	}
}

// answer writes the answer to one question. A conversation that has become too long can
// go on, from the beginning.
func (a *app) answer(ctx context.Context, c *conversation, question string, terminal, quiet bool) error {
	c.asked++
	if !utf8.ValidString(question) {
		return a.unanswered(c, "the question is not UTF-8: which encoding has what it comes from?", terminal)
	}
	r, err := c.ask(ctx, question, func(text string) error {
		_, err := io.WriteString(a.stdout, text)
		return err
	})
	if errors.Is(err, generate.ErrFull) {
		return a.unanswered(c, fmt.Sprintf("%v; /reset begins another conversation", c.full(err)), terminal)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.stdout); err != nil {
		return err
	}
	if !quiet {
		a.note("%s", c.speeds(r))
	}
	if r.Reason == generate.Interrupted {
		return errStopped
	}
	return nil
}

// unanswered says why a question has no answer.
func (a *app) unanswered(c *conversation, why string, terminal bool) error {
	c.missed++
	a.note("%s", why)
	if terminal {
		return nil
	}
	_, err := fmt.Fprintln(a.stdout) // or the next answer would stand in its place
	return err
}

// maxLine is as much as a question may have, in bytes.
const maxLine = 16 << 20

// readLines returns the lines of r as they come, and after the last what it failed with, or nil. Nothing can interrupt
// the reading of a terminal, so that it ends with the program, if not with the input.
func readLines(r io.Reader) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxLine)
		for s.Scan() {
			lines <- s.Text()
		}
		err := s.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a question has more than %d MiB: shorten it", maxLine>>20)
		}
		if err != nil {
			err = fmt.Errorf("standard input: %w", err)
		}
		failed <- err
	}()
	return lines, failed
}
