package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/records"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/measure"
)

const generateLong = `Let a model go on after a text. What it writes goes to standard output as it
comes, everything else to standard error.

How tokens are chosen is what the model's generation_config.json says, unless
flags say otherwise; without that file it is the likeliest token. The same seed
gives the same text, with the same kernels. A text ends with one of the model's
end tokens, with a text given by --stop, after --max-new-tokens, or where the
model can take no more.

Ctrl-C ends the text where it is; the exit code is then 130. With --json the
result is one object, with the fields text, tokens, stop_reason, prompt_tokens,
prefill_s, decode_s, prefill_tokens_per_s, decode_tokens_per_s and sampling;
stop_reason is eos, stop, length (--max-new-tokens), full or interrupted.

With --prompts a file is answered, several lines at the same time. A line is a
JSON object with prompt or messages, and if need be with tools, id, temperature,
top_k, top_p, min_p, repetition_penalty, seed, max_new_tokens and stop. --out
gets a line for each, in the same order, with id, text, stop_reason,
prompt_tokens and new_tokens, or with an error. Lines that it has already are
not written again, so that a run that was ended can go on.`

const generateExamples = `tune generate --model DIR --prompt "Once upon a time"
tune generate --model DIR --chat --system "Answer in one sentence."
tune generate --model DIR --prompt-file ask.txt --temperature 0.7 --seed 1
echo "Once upon a time" | tune generate --model DIR --prompt-file - --json
tune generate --model DIR --prompts ask.jsonl --out answers.jsonl
`

// generateFlags are the values of generate's flags.
type generateFlags struct {
	inferenceFlags
	prompt, file string
	chat         chatFlags
	sampling     generate.Sampling
	stop         []string
	newTokens    int
	tokens       int
	prompts, out string
	size         engineSize // for --prompts
	json, quiet  bool
	changed      func(flag string) bool
}

func (a *app) generateCommand() *Command {
	c := &Command{Name: "generate", Usage: "--model DIR (--prompt TEXT | --chat) [FLAGS]",
		Short: "let a model go on after a text", Long: generateLong, Examples: generateExamples}
	g := &generateFlags{inferenceFlags: newInferenceFlags()}
	g.addInput(c.Group("Model and text"))
	g.chat.add(c.Group("Conversations"))
	g.addSampling(c.Group("How tokens are chosen"))
	g.addMachine(c.Group("Machine"), "`PIECES` of text (a piece of the prompt, or one token)")
	out := c.Group("Output")
	out.BoolVar(&g.json, "json", false, "write one JSON object at the end, instead of the text as it comes")
	out.BoolVar(&g.quiet, "quiet", false, "write nothing but the text, and errors")
	return c.finish(func(ctx context.Context, _ []string) error {
		g.changed = c.Flags.Changed
		if err := g.check(c); err != nil {
			return err
		}
		if g.prompts != "" {
			return a.generateAll(ctx, c, g)
		}
		return a.generate(ctx, c, g)
	})
}

func (g *generateFlags) addInput(f *pflag.FlagSet) {
	g.addModel(f)
	f.StringVar(&g.prompt, "prompt", "", "the `TEXT` to go on after; an empty one lets the model begin")
	f.StringVar(&g.file, "prompt-file", "", "a `FILE` with that text, - for standard input; a newline at its end is "+
		"left out")
	f.StringVar(&g.prompts, "prompts", "", "a JSONL `FILE` with a prompt or messages in each line, to be answered in "+
		"--out")
	f.StringVar(&g.out, "out", "", "the JSONL `FILE` for what --prompts gives")
	g.size.add(f, "`LINES` of --prompts")
	f.StringArrayVar(&g.stop, "stop", nil, "a `TEXT` that ends what is written, and is not written itself; may be "+
		"given several times")
	f.IntVar(&g.newTokens, "max-new-tokens", 256, "the most `TOKENS` to write; 0 for as many as there is room for")
	f.IntVar(&g.tokens, "max-tokens", 0, "the most `TOKENS` of prompt and text together; 0 for as many as the model "+
		"can take")
}

func (g *generateFlags) addSampling(f *pflag.FlagSet) {
	s := &g.sampling
	f.Float64Var(&s.Temperature, "temperature", 0, "how `FREE` the choice is; 0 takes the likeliest token")
	f.IntVar(&s.TopK, "top-k", 0, "choose from the `K` likeliest tokens; 0 for all")
	f.Float64Var(&s.TopP, "top-p", 1, "choose from the likeliest tokens that have the probability `P` together, at "+
		"least from one; 1 for all")
	f.Float64Var(&s.MinP, "min-p", 0, "choose from tokens at least `P` times as likely as the likeliest")
	f.Float64Var(&s.RepetitionPenalty, "repetition-penalty", 1, "by what `FACTOR` tokens that were there before are "+
		"less likely; 1 for none")
	f.Uint64Var(&s.Seed, "seed", 0, "the `SEED` of the choice")
}

// check validates what needs no file.
func (g *generateFlags) check(c *Command) error {
	if err := g.inferenceFlags.check(c); err != nil {
		return err
	}
	switch {
	case (g.prompts != "") != (g.out != ""):
		return c.usagef("--prompts and --out belong together: give both")
	case g.prompts != "" && (g.asked() || g.json):
		return c.usagef("--prompts has its own prompts and results: leave out --prompt, --prompt-file and --json")
	case g.prompts == "" && (g.changed("max-sequences") || g.changed("cache-tokens")):
		return c.usagef("--max-sequences and --cache-tokens are for --prompts: give that, too")
	case !g.asked() && !g.chat.on && g.prompts == "":
		return c.usagef("none of --prompt, --prompt-file, --prompts and --chat is given: what shall the model go on after?")
	case !g.asked() && g.json:
		return c.usagef("--json is for one answer: give --prompt or --prompt-file, too")
	case g.changed("prompt") && g.file != "":
		return c.usagef("--prompt and --prompt-file exclude each other: give one of them")
	case g.newTokens < 0:
		return c.usagef("--max-new-tokens is %d, must not be negative", g.newTokens)
	case g.tokens < 0:
		return c.usagef("--max-tokens is %d, must not be negative", g.tokens)
	case g.sampling.RepetitionPenalty == 0:
		return c.usagef("--repetition-penalty is 0, " + generate.PenaltyRange)
	case slices.Contains(g.stop, ""):
		return c.usagef("--stop is empty: name a text, or leave the flag out")
	}
	return cmp.Or(c.notStdout("file", "out"), c.inUTF8("prompt", "stop", "system"), c.misuse(g.sampling.Validate()),
		g.chat.check(c), g.size.check(c))
}

// asked reports whether there is a prompt.
func (g *generateFlags) asked() bool { return g.changed("prompt") || g.file != "" }

// choose fills in what the model's folder says about sampling, where no flag does.
func (g *generateFlags) choose(c *Command, d generate.Sampling) (generate.Sampling, error) {
	s := g.sampling
	for flag, keep := range map[string]func(){
		"temperature":        func() { s.Temperature = d.Temperature },
		"top-k":              func() { s.TopK = d.TopK },
		"top-p":              func() { s.TopP = d.TopP },
		"min-p":              func() { s.MinP = d.MinP },
		"repetition-penalty": func() { s.RepetitionPenalty = d.RepetitionPenalty },
	} {
		if !g.changed(flag) {
			keep()
		}
	}
	if s.Temperature > 0 {
		return s, nil
	}
	for _, flag := range []string{"top-k", "top-p", "min-p"} {
		if g.changed(flag) {
			return s, c.usagef("--%s has no effect when the likeliest token is taken; give --temperature, too", flag)
		}
	}
	return s, nil
}

// text returns the prompt.
func (g *generateFlags) text() (string, error) {
	var b []byte
	var err error
	switch g.file {
	case "":
		return g.prompt, nil
	case "-":
		b, err = io.ReadAll(os.Stdin)
	default:
		b, err = os.ReadFile(g.file)
	}
	if err != nil {
		return "", fmt.Errorf("--prompt-file: %w", plainfile.Explain(err))
	}
	if b, err = asUTF8(g.file, b); err != nil {
		return "", fmt.Errorf("--prompt-file: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// asUTF8 returns the text of a file without the mark that some programs begin one with. What is not UTF-8 the model
// would read as other characters.
func asUTF8(file string, text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bad := records.CheckUTF8(text, records.Place{File: file, Line: 1}); bad != nil {
		return nil, bad
	}
	return text, nil
}

func (a *app) generate(ctx context.Context, c *Command, g *generateFlags) (err error) {
	prompt, err := g.text()
	if err != nil {
		return err
	}
	var template *chat.Template
	if g.chat.on { // that there is none is said before the weights are read
		if _, err := c.readConfig(&g.Config); err != nil {
			return err
		}
		if template, err = trainer.ChatTemplate(g.Model, g.LoRA.Adapter, g.chat.template); err != nil {
			return err
		}
	}
	w, err := a.newWriting(ctx, c, g)
	if err != nil {
		return err
	}
	defer closing(w, &err)
	if !g.chat.on {
		return a.write(ctx, w, w.tokenizer.Encode(prompt, true), g)
	}
	talk, err := a.newConversation(w, &g.chat, template)
	if err != nil {
		return err
	}
	if !g.asked() {
		return a.talk(ctx, talk, g.quiet)
	}
	ids, err := talk.prompt(prompt)
	if err != nil {
		return err
	}
	return a.write(ctx, w, ids, g)
}

// write lets the model go on after one prompt.
func (a *app) write(ctx context.Context, w *writing, prompt []int32, g *generateFlags) error {
	if !g.json {
		w.options.Emit = func(text string) error {
			_, err := io.WriteString(a.stdout, text)
			return err
		}
	}
	r, err := generate.Run(ctx, w.session, w.tokenizer, prompt, w.options)
	if err != nil {
		return w.full(err)
	}
	if g.json {
		err = writeResult(a.stdout, r, w.options.Sampling)
	} else {
		_, err = fmt.Fprintln(a.stdout)
	}
	if !g.quiet && !g.json {
		a.note("%s", w.speeds(r))
	}
	if err == nil && r.Reason == generate.Interrupted {
		return errStopped
	}
	return err
}

// writing is a model that is ready to write.
type writing struct {
	*inference
	session *generate.Session
	options generate.Options // without Emit
}

// withoutKernel are the ops that get none when a model writes, and why.
var withoutKernel = map[core.Op]string{
	core.Attention:          "a model that writes has its keys and values in a cache",
	core.LinearCrossEntropy: "a model that writes has no loss",
}

// newWriting reads the model and what its folder says about writing.
func (a *app) newWriting(ctx context.Context, c *Command, g *generateFlags) (_ *writing, err error) {
	defaults, err := generate.LoadDefaults(g.Model)
	if err != nil {
		return nil, err
	}
	if err := a.noteIgnored(g.Model, g.quiet); err != nil {
		return nil, err
	}
	w := &writing{options: generate.Options{MaxNewTokens: g.newTokens, EOS: defaults.EOS, Stop: g.stop}}
	if w.options.Sampling, err = g.choose(c, defaults.Sampling); err != nil {
		return nil, err
	}
	if w.inference, err = g.open(ctx, a, c); err != nil {
		return nil, err
	}
	if id, ok := w.tokenizer.EOS(); ok && w.options.EOS == nil {
		w.options.EOS = []int32{id}
	}
	w.session = generate.NewSession(w.model, w.memory, g.tokens)
	report, err := w.place(ctx, a, &g.inferenceFlags, measure.Run{Batch: 1, Seq: 1, MaxPosition: w.session.Limit(),
		Plain: withoutKernel})
	if err != nil {
		closing(w, &err)
		return nil, err
	}
	if report != nil && !g.quiet {
		fmt.Fprint(a.stderr, g.kernels.placed(report))
	}
	w.session.Check(w.check, report)
	return w, nil
}

// Close gives everything back.
func (w *writing) Close() error {
	if w.session != nil {
		w.session.Close()
	}
	return w.inference.Close()
}

// speeds says how fast a text came, and why it ended.
func (w *writing) speeds(r *generate.Result) string {
	return fmt.Sprintf("%s in (%.0f/s), %d out (%.1f/s); %s", amount.Of(r.PromptTokens-r.Reused, "token"),
		r.PrefillRate(), len(r.Tokens), r.DecodeRate(), w.why(r.Reason))
}

// full says what to do about a prompt that there is no room for.
func (w *writing) full(err error) error {
	if !errors.Is(err, generate.ErrFull) {
		return err
	}
	if most := w.model.Config.MaxPositionEmbeddings; w.session.Limit() == most {
		return fmt.Errorf("%w, as many as the model takes: shorten the prompt", err)
	}
	return fmt.Errorf("%w: raise --max-tokens, which is for prompt and text together (--max-new-tokens is for the "+
		"text alone), or shorten the prompt", err)
}

// why says why a text ended, and which limit it came to if it did.
func (w *writing) why(r generate.Reason) string {
	limit := w.session.Limit()
	switch {
	case r == generate.EOS:
		return "the model ended it"
	case r == generate.Stop:
		return "a --stop text ended it"
	case r == generate.Length:
		return fmt.Sprintf("--max-new-tokens %d ended it", w.options.MaxNewTokens)
	case r == generate.Full && limit < w.model.Config.MaxPositionEmbeddings:
		return fmt.Sprintf("--max-tokens %d ended it", limit)
	case r == generate.Full:
		return fmt.Sprintf("the model takes no more than %d", limit)
	}
	return string(r)
}

// writeResult writes the object of --json.
func writeResult(w io.Writer, r *generate.Result, s generate.Sampling) error {
	return plainjson.Encode(w, struct {
		Text        string            `json:"text"`
		Tokens      []int32           `json:"tokens"`
		Reason      generate.Reason   `json:"stop_reason"`
		Prompt      int               `json:"prompt_tokens"`
		Prefill     float64           `json:"prefill_s"`
		Decode      float64           `json:"decode_s"`
		PrefillRate float64           `json:"prefill_tokens_per_s"`
		DecodeRate  float64           `json:"decode_tokens_per_s"`
		Sampling    generate.Sampling `json:"sampling"`
	}{r.Text, r.Tokens, r.Reason, r.PromptTokens, r.Prefill.Seconds(), r.Decode.Seconds(), r.PrefillRate(),
		r.DecodeRate(), s}, "")
}
