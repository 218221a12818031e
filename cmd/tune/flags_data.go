package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer/chat"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/data/format"
	"github.com/seed98097648/tune/trainer/data/records"
)

// addDataPaths adds the flags that say which data is read.
func addDataPaths(f *pflag.FlagSet, c *corpus.Config) {
	f.StringArrayVar(&c.Paths, "data", nil, "a `FILE` or folder to train on, or a name of --dataset-dir; may be "+
		"given again, or have commas, and a weight: notes.jsonl@0.3 takes three of ten examples, @2 each twice")
	f.StringArrayVar(&c.Eval, "eval-data", nil, "a `FILE` to evaluate on, likewise, or NAME=FILE: of several, each is "+
		"told by its name, too; otherwise a part of the data is held out")
	f.Var(value{"float64", func() string {
		if c.EvalSize == nil {
			return ""
		}
		return strconv.FormatFloat(*c.EvalSize, 'g', -1, 64)
	}, func(text string) (err error) {
		var n float64
		if c.EvalSize = nil; text != "" {
			n, err = strconv.ParseFloat(text, 64)
			c.EvalSize = &n
		}
		return err
	}}, "eval-size", "how much `SHARE` of the examples is held out without --eval-data, or from 1 on how many; "+
		"0 for none; a twentieth, at most 100, unless given")
}

// addDataReading adds the flags that say how data is read.
func addDataReading(f *pflag.FlagSet, c *corpus.Config) {
	f.StringVar((*string)(&c.Format), "data-format", string(format.Auto),
		"the `FORMAT` of the data's columns: "+strings.Join(format.Formats(), ", ")+
			"; auto tells it from the names of the columns")
	f.StringVar(&c.Template, "template", "", "a built-in chat `TEMPLATE` for conversations, in place of the model's "+
		"own: "+strings.Join(chat.Names(), ", "))
	f.StringVar(&c.Dir, "dataset-dir", "", "a `FOLDER` with a dataset_info.json, as LLaMA-Factory has it, whose names "+
		"--data may use")
	f.IntVar(&c.MaxSamples, "max-samples", 0, "read only the first `EXAMPLES` of each FILE, folder or name; 0 for all")
	f.BoolVar(&c.SkipBadRows, "skip-bad-rows", false, "leave out rows that cannot be read, and count them; otherwise "+
		"the first ends the run")
}

// addGrouping adds the flag that says which rows come together.
func addGrouping(f *pflag.FlagSet, group *bool) {
	f.BoolVar(group, "group-by-length", false, "with --no-packing, put rows of similar lengths into a step, so that "+
		"there is less padding to compute")
}

// addDataLearning adds the flags that say what of the data is learned, and in which rows.
func addDataLearning(f *pflag.FlagSet, c *corpus.Config) {
	f.BoolVar(&c.TrainOnPrompt, "train-on-prompt", false, "learn all of a conversation, not only the assistant's words")
	f.BoolVar(&c.CutLong, "cut-long", false, "of a text longer than a row learn the beginning alone, as of "+
		"conversations; otherwise it goes on in further rows")
	f.BoolVar(&c.NoPacking, "no-packing", false, "give each example a row of its own; otherwise several share a row, "+
		"and do not see each other")
	f.BoolVar(&c.RepeatPrompt, "repeat-prompt", false, "with a --stage of preferences, compute a prompt for each of "+
		"its two answers, even where once for both gives the same")
	addTalk(f, &c.Talk)
	addMixing(f, &c.Mixing)
}

// noteData says what of the data was not used, or not as a whole.
func (a *app) noteData(c corpus.Config, read *corpus.Corpus) error {
	if read == nil { // the built-in example
		return nil
	}
	sources, err := corpus.Resolve(c.Paths, c.Dir)
	if err != nil {
		return err
	}
	eval, err := corpus.ResolveEval(c.Eval, c.Dir)
	if err != nil {
		return err
	}
	for _, s := range append(sources, eval...) {
		if len(s.Skipped) > 0 {
			a.note("%s: read %s only; skipped %s", s.Name, records.Extensions(), strings.Join(s.Skipped, ", "))
		}
	}
	for _, line := range dataNotes(read.Report) {
		a.note("%s", line)
	}
	a.noteMissing(c.Template, read.Report.Missing)
	return nil
}

// noteMissing warns of a built-in chat template that a tokenizer does not fit.
func (a *app) noteMissing(template string, missing []string) {
	if len(missing) > 0 {
		a.note("warning: --template %s writes %s, which the tokenizer lacks: they become plain text, and no answer will "+
			"end by itself; alpaca, for one, fits any tokenizer",
			template, strings.Join(missing, " "))
	}
}

// dataNotes are the sentences about what was left out.
func dataNotes(r corpus.Report) []string {
	var notes []string
	if r.Truncated > 0 {
		notes = append(notes, fmt.Sprintf("%s cut at the end to fit in a row; the longest example has %s: see --seq",
			amount.Of(r.Truncated, "example"), amount.Of(r.Longest, "token")))
	}
	if r.Empty > 0 {
		notes = append(notes, fmt.Sprintf("%s left out: nothing to learn within a row; see --seq",
			amount.Of(r.Empty, "conversation")))
	}
	if r.Repeated > 0 {
		notes = append(notes, fmt.Sprintf("%s %s the prompt twice, once for each answer: %s", amount.Of(r.Repeated, "pair"),
			map[bool]string{true: "has", false: "have"}[r.Repeated == 1], flagged(r.RepeatedWhy)))
	}
	if r.Bad > 0 {
		notes = append(notes, fmt.Sprintf("%s left out; the first:", amount.Of(r.Bad, "bad row")))
		for _, bad := range r.FirstBad {
			notes = append(notes, flagged(bad))
		}
	}
	return notes
}
