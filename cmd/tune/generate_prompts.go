package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/generate"
)

// promptLine is a line of --prompts. Nil is what was not given.
type promptLine struct {
	ID       json.RawMessage   `json:"id"` // the number of the line without one
	Prompt   *string           `json:"prompt"`
	Messages []json.RawMessage `json:"messages"`
	messages []chat.Message
	Tools    json.RawMessage `json:"tools"`
	tools    []any

	Temperature       *float64 `json:"temperature"`
	TopK              *int     `json:"top_k"`
	TopP              *float64 `json:"top_p"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	Seed              *uint64  `json:"seed"`
	MaxNewTokens      *int     `json:"max_new_tokens"`
	Stop              []string `json:"stop"`
}

// resultLine is a line of --out: a text, or why there is none.
type resultLine struct {
	ID     json.RawMessage `json:"id"`
	Text   *string         `json:"text,omitempty"`
	Reason generate.Reason `json:"stop_reason,omitempty"`
	Prompt int             `json:"prompt_tokens,omitempty"`
	New    int             `json:"new_tokens,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// readPrompts reads --prompts. What is wrong with a line is said before anything is written.
func readPrompts(path string) ([]promptLine, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--prompts: %w", plainfile.Explain(err))
	}
	if text, err = asUTF8(path, text); err != nil {
		return nil, fmt.Errorf("--prompts: %w", err)
	}
	var all []promptLine
	n := 0
	for line := range bytes.Lines(text) {
		if n++; len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p := promptLine{}
		err := plainjson.Unmarshal(line, &p)
		if err == nil {
			err = cmp.Or(plainjson.Surrogates(line), p.check())
		}
		if err != nil {
			return nil, fmt.Errorf("--prompts: %s:%d: %w", path, n, err)
		}
		var id bytes.Buffer
		if json.Compact(&id, p.ID) != nil || id.String() == "null" {
			id.Reset()
			fmt.Fprint(&id, n)
		}
		p.ID = id.Bytes()
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--prompts: %s has no lines", path)
	}
	return all, nil
}

// check validates a line, and gives what is in the form of the API that of the template.
func (p *promptLine) check() (err error) {
	if p.tools, err = chat.ToolsFromAPI(p.Tools); err != nil {
		return err
	}
	if p.Messages != nil {
		if p.messages, err = chat.FromAPI(p.Messages); err != nil {
			return err
		}
	}
	switch {
	case (p.Prompt == nil) == (p.Messages == nil):
		return errors.New(`a line must have either "prompt" or "messages"`)
	case p.Prompt != nil && len(p.tools) > 0:
		return errors.New("tools are for messages: give the question as one of these")
	case p.MaxNewTokens != nil && *p.MaxNewTokens < 0:
		return fmt.Errorf("max_new_tokens is %d, must not be negative", *p.MaxNewTokens)
	case p.RepetitionPenalty != nil && *p.RepetitionPenalty == 0:
		return errors.New("repetition_penalty is 0, " + generate.PenaltyRange)
	case slices.Contains(p.Stop, ""):
		return errors.New("stop has an empty text, which would end every answer at once")
	}
	return p.options(generate.Options{}).Sampling.Validate()
}

// options returns o with what the line says.
func (p *promptLine) options(o generate.Options) generate.Options {
	given(&o.Sampling.Temperature, p.Temperature)
	given(&o.Sampling.TopK, p.TopK)
	given(&o.Sampling.TopP, p.TopP)
	given(&o.Sampling.MinP, p.MinP)
	given(&o.Sampling.RepetitionPenalty, p.RepetitionPenalty)
	given(&o.Sampling.Seed, p.Seed)
	given(&o.MaxNewTokens, p.MaxNewTokens)
	if p.Stop != nil {
		o.Stop = p.Stop
	}
	return o
}

func given[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// batchWriter answers the lines of a file.
type batchWriter struct {
	*writingEngine
	prompts  []promptLine
	options  generate.Options
	template *chat.Template // nil if no line needs one
	first    []chat.Message // what a conversation begins with that has no system message
	vars     map[string]any // of the template
	asks     bool           // whether prompts are such questions
}

// generateAll answers all lines of --prompts that --out does not have yet.
func (a *app) generateAll(ctx context.Context, c *Command, g *generateFlags) (err error) {
	prompts, err := readPrompts(g.prompts)
	if err != nil {
		return err
	}
	if !g.converses(prompts) {
		if err := g.chat.unused(c); err != nil {
			return err
		}
	}
	if isSameFile(g.prompts, g.out) {
		return c.usagef("--out is the file of --prompts: name another")
	}
	out, err := openResults(g.out, prompts)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer closing(out, &err)
	if out.done > 0 && !g.quiet {
		a.note("%s has %d of %s already", g.out, out.done, amount.Of(len(prompts), "line"))
	}
	if out.done == len(prompts) {
		return out.failures()
	}
	b, err := a.newBatchWriter(ctx, c, g, prompts)
	if err != nil {
		return err
	}
	defer closing(b, &err)
	set, end := func(int) {}, func() {}
	if !g.quiet {
		set, end = a.progress.Count(len(prompts), "lines")
	}
	err = b.run(ctx, out, set)
	end()
	if err == nil && ctx.Err() != nil {
		a.note("interrupted: %s has %d of %s; the same command goes on", g.out, out.done, amount.Of(len(prompts), "line"))
		return errStopped
	}
	return cmp.Or(err, out.failures())
}

// converses reports whether a line is a conversation.
func (g *generateFlags) converses(prompts []promptLine) bool {
	return g.chat.on || slices.ContainsFunc(prompts, func(p promptLine) bool { return p.Messages != nil })
}

func (a *app) newBatchWriter(ctx context.Context, c *Command, g *generateFlags, prompts []promptLine) (*batchWriter,
	error) {
	b := &batchWriter{prompts: prompts, asks: g.chat.on}
	if g.chat.system != "" {
		b.first = []chat.Message{{Role: "system", Content: g.chat.system}}
	}
	needs := g.converses(prompts)
	var err error
	if b.vars, err = g.chat.args.Vars(); err != nil {
		return nil, err
	}
	if needs {
		if _, err := c.readConfig(&g.Config); err != nil {
			return nil, err
		}
		if b.template, err = trainer.ChatTemplate(g.Model, g.LoRA.Adapter, g.chat.template); err != nil {
			return nil, err
		}
	}
	g.size.Limit = g.tokens
	if b.writingEngine, err = a.openEngine(ctx, c, &g.inferenceFlags, g.size, g.quiet); err != nil {
		return nil, err
	}
	if needs {
		a.noteMissing(g.chat.template, b.template.Missing(b.tokenizer.Encode))
	}
	b.options = generate.Options{MaxNewTokens: g.newTokens, EOS: b.defaults.EOS, Stop: g.stop}
	if b.options.Sampling, err = g.choose(c, b.defaults.Sampling); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// run answers the lines that are missing, several at once, and writes them in their order. When ctx ends, what is
// done up to the first line that is not stays.
func (b *batchWriter) run(ctx context.Context, out *results, set func(done int)) error {
	first := out.done
	answer := func(ctx context.Context, i int) (*resultLine, error) { return b.answer(ctx, first+i) }
	err := generate.InOrder(ctx, len(b.prompts)-first, answer, func(_ int, r *resultLine) error {
		if err := out.add(r); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		set(out.done)
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// answer answers one line.
func (b *batchWriter) answer(ctx context.Context, i int) (*resultLine, error) {
	p := &b.prompts[i]
	ids, err := b.prompt(p)
	if n := len(ids); err == nil && (n == 0 || n > b.engine.Limit()) {
		err = fmt.Errorf("the prompt has %s, and there is room for %d", amount.Of(n, "token"), b.engine.Limit())
	}
	if err != nil {
		return &resultLine{ID: p.ID, Error: err.Error()}, nil
	}
	o := b.options
	o.Sampling.Seed += uint64(i) // or lines that are alike would have the same answer
	r, err := b.engine.Generate(ctx, generate.Request{Prompt: ids, Options: p.options(o)})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	return &resultLine{ID: p.ID, Text: &r.Text, Reason: r.Reason, Prompt: r.PromptTokens, New: len(r.Tokens)}, nil
}

// prompt returns the tokens to go on after.
func (b *batchWriter) prompt(p *promptLine) ([]int32, error) {
	messages := p.messages
	switch {
	case messages == nil && !b.asks:
		return b.tokenizer.Encode(*p.Prompt, true), nil
	case messages == nil:
		messages = []chat.Message{{Role: "user", Content: *p.Prompt}}
	}
	if !slices.ContainsFunc(messages, func(m chat.Message) bool { return m.Role == "system" }) {
		messages = slices.Concat(b.first, messages)
	}
	c := b.template.Fit(chat.Conversation{Messages: messages, Tools: p.tools, Vars: b.vars})
	text, err := b.template.Render(c, true)
	if err == nil {
		err = b.template.Whole(c, text)
	}
	return b.tokenizer.Encode(text, false), err
}
