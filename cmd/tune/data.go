package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/seed98097648/tune/core/transport"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

const dataPreviewLong = `Show what a model would be trained on: the first examples as they are tokenised,
with the model's own chat template, and counts of all.

What is learned is bold and green on a terminal, and special tokens are blue;
elsewhere, or with $NO_COLOR set, it stands between the brackets ⟦ and ⟧.

With a --stage of preferences each example is two answers: the rejected one is
red, and one that belongs to another prompt is yellow.

All data is read as a training run reads it, so that its errors are found here;
the model's weights are not needed.`

// previewFlags are the values of data preview's flags.
type previewFlags struct {
	config trainer.Config
	n      int
	asJSON bool
}

func (a *app) dataPreviewCommand() *Command {
	c := &Command{Name: "data preview", Usage: "--model DIR --data FILE [FLAGS]",
		Short: "show what of the data would be learned", Long: dataPreviewLong,
		Examples: "tune data preview --model DIR --data train.jsonl\ntune data preview --model DIR --dataset-dir data " +
			"--data alpaca_en_demo -n 1\n"}
	p := &previewFlags{config: trainer.Default()}
	f := c.Group("Model and data")
	f.StringVar(&p.config.Model, "model", "", "the model `FOLDER`; config.json and the tokenizer's files are enough")
	addDataPaths(f, &p.config.Data)
	addStage(f, &p.config.Preference)
	f.IntVar(&p.config.Seq, "seq", p.config.Seq, "`TOKENS` of a row; by default no more than the model can take")
	f.Uint64Var(&p.config.Seed, "seed", p.config.Seed, "`SEED` of what is sampled and held out")
	reading := c.Group("Reading the data")
	addDataReading(reading, &p.config.Data)
	addDataLearning(reading, &p.config.Data)
	addWords(c.Group("New tokens"), &p.config.Words)
	out := c.Group("Output")
	out.IntVarP(&p.n, "examples", "n", 3, "`EXAMPLES` to show")
	out.BoolVar(&p.asJSON, "json", false, "write JSON")
	return c.finish(func(ctx context.Context, _ []string) error { return a.previewData(ctx, c, p) })
}

func (a *app) previewData(ctx context.Context, c *Command, p *previewFlags) (err error) {
	if err := p.check(c); err != nil {
		return err
	}
	if _, err := c.readConfig(&p.config); err != nil {
		return err
	}
	mem := transport.NewShapes("tensors")
	defer closing(mem, &err)
	if m, _ := shape(p.config, mem); m != nil { // what is wrong with the model itself is nothing of the data
		if err := p.config.CheckLength(m); err != nil {
			return err
		}
	}
	tok, err := p.config.Tokenizer()
	if err != nil {
		return err
	}
	read, err := corpus.Load(ctx, p.config.Data, trainer.DataModel(p.config, tok))
	if err != nil {
		return err
	}
	defer closing(read, &err)
	shown, err := examplesOf(read, tok, p.n)
	if err != nil {
		return err
	}
	if p.asJSON {
		return a.writeJSON(preview{shown, read.Report})
	}
	for _, e := range shown {
		e.print(a.stdout, paletteOf(a.stdout))
	}
	printReport(a.stdout, read.Report, read.Seq)
	return a.noteData(p.config.Data, read)
}

func (p *previewFlags) check(c *Command) error {
	switch {
	case p.config.Model == "":
		return c.usagef("--model is needed: name the model folder whose tokenizer and chat template are used")
	case len(p.config.Data.Paths) == 0:
		return c.usagef("--data is needed: name the data to show")
	case p.n < 0:
		return c.usagef("--examples is %d, must not be negative", p.n)
	}
	return c.misuse(p.config.Validate())
}

func printReport(w io.Writer, r corpus.Report, seq int) {
	for _, s := range r.Sources {
		fmt.Fprintf(w, "%s: %s, %s\n", s.File, s.Format, amount.Of(s.Examples, "example"))
	}
	share := 100 * float64(r.Learned) / float64(max(r.Tokens, 1))
	fmt.Fprintf(w, "examples   %d, the longest of %s\n", r.Examples, amount.Of(r.Longest, "token"))
	fmt.Fprintf(w, "tokens     %d, of which %d (%.0f%%) are learned\n", r.Tokens, r.Learned, share)
	if r.Shared > 0 {
		fmt.Fprintf(w, "shared     %d tokens of prompts stand in a row once for two answers\n", r.Shared)
	}
	fmt.Fprintf(w, "truncated  %d, and %d left out that have nothing to learn within a row\n", r.Truncated, r.Empty)
	fmt.Fprintf(w, "bad rows   %d\n", r.Bad)
	fmt.Fprintf(w, "rows       %d of %s to train on, %d to evaluate on\n", r.TrainRows, amount.Of(seq, "token"),
		r.EvalRows)
}

// preview is what "data preview --json" writes.
type preview struct {
	Examples []example     `json:"examples"`
	Report   corpus.Report `json:"report"`
}

// example is a tokenised example as text, in pieces.
type example struct {
	Place   string      `json:"place,omitempty"`
	Role    string      `json:"role,omitempty"` // of an answer among preferences
	Tokens  int         `json:"tokens"`
	Learned int         `json:"learned"`
	Pieces  []textPiece `json:"pieces"`
}

// textPiece is the text of neighbouring tokens that are alike.
type textPiece struct {
	Text    string `json:"text"`
	Learned bool   `json:"learned"`
	Special bool   `json:"special,omitempty"` // one special token
}

// roleNames are what answers are in training on preferences.
var roleNames = map[data.Role]string{data.Chosen: "chosen", data.Rejected: "rejected", data.Mismatched: "mismatched"}

// examplesOf returns the first n examples, of which one of preferences is two answers.
func examplesOf(read *corpus.Corpus, tok *tokenizer.Tokenizer, n int) ([]example, error) {
	shown := []example{}
	for i := range min(n, read.Report.Examples) {
		place, parts, err := read.Example(i)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			e := example{Role: roleNames[part.Role], Tokens: len(part.IDs), Pieces: piecesOf(tok, part.IDs, part.Learn)}
			if place.File != "" {
				e.Place = place.String()
			}
			for k, yes := range part.Learn {
				if yes && k > 0 {
					e.Learned++
				}
			}
			shown = append(shown, e)
		}
	}
	return shown, nil
}

// piecesOf decodes tokens. A piece's text is what it adds to the text before it, because a
// tokenizer may write the beginning of a text in another way.
func piecesOf(tok *tokenizer.Tokenizer, ids []int32, learn []bool) []textPiece {
	special := func(i int) bool { return tok.Decode(ids[i:i+1], true) == "" && tok.Decode(ids[i:i+1], false) != "" }
	var pieces []textPiece
	before := ""
	for start := 0; start < len(ids); {
		p := textPiece{Learned: learn[start], Special: special(start)}
		end := start + 1
		for !p.Special && end < len(ids) && learn[end] == p.Learned && !special(end) {
			end++
		}
		text := tok.Decode(ids[:end], false)
		added, ok := strings.CutPrefix(text, before)
		if !ok { // the piece begins inside a character
			added = tok.Decode(ids[start:end], false)
		}
		p.Text, before, start = added, text, end
		pieces = append(pieces, p)
	}
	return pieces
}

// colour is that of what is learned: green, but of answers that are not to be followed.
func (e example) colour() string {
	switch e.Role {
	case roleNames[data.Rejected]:
		return "1;31"
	case roleNames[data.Mismatched]:
		return "33"
	}
	return "1;32"
}

// print writes an example. What is learned is coloured, or else in brackets.
func (e example) print(w io.Writer, colours palette) {
	what := "learned"
	if e.Role != "" {
		what = "of the " + e.Role + " answer"
	}
	fmt.Fprintf(w, "--- %s: %s, %d %s\n", e.Place, amount.Of(e.Tokens, "token"), e.Learned, what)
	inside := false // brackets
	for _, p := range e.Pieces {
		text := printable(p.Text)
		switch {
		case !bool(colours) && p.Learned != inside:
			inside = p.Learned
			text = map[bool]string{true: "⟦", false: "⟧"}[inside] + text
		case p.Learned:
			text = colours.paint(e.colour(), text)
		case p.Special:
			text = colours.paint("34", text)
		}
		fmt.Fprint(w, text)
	}
	if inside {
		fmt.Fprint(w, "⟧")
	}
	fmt.Fprint(w, "\n\n")
}

// printable shows control characters as they are written in Go, so that no data, nor a name in a model's files, can
// move the cursor of a terminal.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "\\x%02x", r)
	}
	return b.String()
}
