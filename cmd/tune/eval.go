package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/measure"
	"github.com/seed98097648/tune/trainer/metric"
	"github.com/seed98097648/tune/trainer/progress"
)

const evalLong = `Measure how well a model knows a text: its mean loss for each token, and the
perplexity, which is exp(loss). Documents are packed into rows as for training.

A conversation, in any of the formats that train takes, is scored on the
assistant's words alone. With --metric its answers are scored, too. For
exact_match and rouge_l the model answers what each conversation asks first, by
its likeliest tokens: an answer is right if it is the expected one, white space
around them aside, or as near as ROUGE-L says. token_accuracy is the share of
tokens to predict that are the likeliest after the right ones before them.

With --json the result is one object, with the fields model, data, rows,
targets, loss, perplexity, of several files also sets, with --metric also
metric, score and predictions, and with --exact-match also right, asked and
answers.`

// evalFlags are the values of eval's flags.
type evalFlags struct {
	inferenceFlags
	exact       bool
	json        bool
	predictions string // the file for these
}

func (a *app) evalCommand() *Command {
	c := &Command{Name: "eval", Usage: "--model DIR --data FILE [FLAGS]",
		Short: "measure a model's loss on a text, and its answers", Long: evalLong,
		Examples: "tune eval --model DIR --data test.txt\n" +
			"tune eval --model DIR --data maths=a.jsonl --data b.jsonl --metric rouge_l \\\n  --predictions out.jsonl\n"}
	e := &evalFlags{inferenceFlags: newInferenceFlags()}
	in := c.Group("Model and data")
	e.addModel(in)
	in.StringArrayVar(&e.Data.Eval, "data", nil, "a `FILE` or folder to measure on, or a name of --dataset-dir; may "+
		"be given again, and as NAME=FILE: each is told by its name")
	addRows(in, &e.Config)
	addMetric(in, &e.Metric.Name, "the data")
	in.BoolVar(&e.exact, "exact-match", false, "the same as --metric exact_match, with the answers in the result")
	addNewTokens(in, &e.Metric.MaxNewTokens)
	in.StringVar(&e.predictions, "predictions", "", "write what --metric scores to this `FILE`: a JSON object a line, "+
		"with prompt, expected, generated and score, of several files also data")
	reading := c.Group("Reading the data")
	addDataReading(reading, &e.Data)
	addTalk(reading, &e.Data.Talk)
	reading.Lookup("mask-history").Usage = "measure the last answer of a conversation alone"
	out := c.Group("Machine and output")
	e.addMachine(out, "`BATCHES`")
	out.BoolVar(&e.json, "json", false, "write one JSON object")
	return c.finish(func(ctx context.Context, _ []string) error {
		if err := e.check(c); err != nil {
			return err
		}
		return a.eval(ctx, c, e)
	})
}

// check validates what needs no file.
func (e *evalFlags) check(c *Command) error {
	switch {
	case e.exact && e.Metric.Name != "" && e.Metric.Name != metric.ExactMatch:
		return c.usagef("--exact-match is given with --metric %s: leave one of them out", e.Metric.Name)
	case e.exact:
		e.Metric.Name = metric.ExactMatch
	case e.Metric.Name == "" && e.predictions != "":
		return c.usagef("--predictions is given without --metric: there is nothing to write")
	case e.Metric.Name == "" && c.Flags.Changed("max-new-tokens"):
		return c.usagef("--max-new-tokens is given without --metric: no answers are written")
	}
	if err := e.inferenceFlags.check(c); err != nil {
		return err
	}
	if len(e.Data.Eval) == 0 {
		return c.usagef("--data is not given: name the text to measure on")
	}
	if err := c.notStdout("file", "predictions"); err != nil {
		return err
	}
	if err := checkWritable(e.predictions); err != nil {
		return fmt.Errorf("--predictions: %w", err)
	}
	return nil
}

// evaluation is the result.
type evaluation struct {
	Model      string   `json:"model"`
	Data       string   `json:"data"`
	Rows       int      `json:"rows"`
	Targets    int      `json:"targets"`
	Loss       float64  `json:"loss"`
	Perplexity float64  `json:"perplexity"`
	Right      *int     `json:"right,omitempty"` // with --exact-match
	Asked      *int     `json:"asked,omitempty"`
	Answers    []answer `json:"answers,omitempty"`

	Metric      metric.Name         `json:"metric,omitempty"` // with --metric
	Score       *float64            `json:"score,omitempty"`
	Predictions []metric.Prediction `json:"predictions,omitempty"`

	Sets []trainer.SetEval `json:"sets,omitempty"` // of several
}

// answer is what a model made of a prompt.
type answer struct {
	Want  string `json:"want"`
	Got   string `json:"got"`
	Right bool   `json:"right"`
}

func (a *app) eval(ctx context.Context, c *Command, e *evalFlags) (err error) {
	if _, err := corpus.ResolveEval(e.Data.Eval, e.Data.Dir); err != nil { // before the weights are read
		return fmt.Errorf("--data: %w", err)
	}
	in, err := e.open(ctx, a, c)
	if err != nil {
		return err
	}
	defer closing(in, &err)
	if err := in.model.Config.CheckLength("--seq", e.Seq, 1); err != nil {
		return err
	}
	held, err := corpus.LoadEval(ctx, e.Data, trainer.DataModel(e.Config, in.tokenizer))
	if err != nil {
		return err
	}
	defer closing(held, &err)
	if err := a.noteData(e.Data, held); err != nil {
		return err
	}
	asked, err := e.questions(held, in)
	if err != nil {
		return err
	}
	report, err := in.place(ctx, a, &e.inferenceFlags, measure.Run{Batch: e.Batch, Seq: e.Seq})
	if err != nil {
		return err
	}
	if report != nil {
		fmt.Fprint(a.stderr, e.kernels.placed(report))
	}
	r := &evaluation{Model: e.Model, Data: strings.Join(e.Data.Eval, ", "), Rows: held.Eval.Len()}
	if err := a.evalSets(ctx, in, e, held, r); err != nil {
		return err
	}
	if e.Metric.Name != "" {
		if err := a.score(ctx, in, e, asked, r); err != nil {
			return err
		}
	}
	if e.json {
		return plainjson.Encode(a.stdout, r, "")
	}
	return r.print(a.stdout)
}

// print writes the result for people.
func (r *evaluation) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %s, %s\n  loss         %.6f\n  perplexity   %.4f\n", r.Data, amount.Of(r.Rows, "row"),
		amount.Of(r.Targets, "target"), r.Loss, r.Perplexity)
	for i := 0; err == nil && i < len(r.Sets); i++ {
		s := r.Sets[i]
		_, err = fmt.Fprintf(w, "  %-12s loss %.6f, %s%s\n", s.Name, s.Loss, amount.Of(s.Targets, "target"),
			progress.Scores(s.Scores))
	}
	switch {
	case err != nil:
	case r.Asked != nil:
		_, err = fmt.Fprintf(w, "  exact match  %d of %d (%.1f%%)\n", *r.Right, *r.Asked,
			100*float64(*r.Right)/float64(*r.Asked))
	case r.Metric != "":
		_, err = fmt.Fprintf(w, "  %-12s %.4f\n", r.Metric, *r.Score)
	}
	return err
}

// evalLoss measures the loss, and takes what is the likeliest where that is scored.
func (a *app) evalLoss(ctx context.Context, in *inference, e *evalFlags, rows data.Rows, r *trainer.SetEval,
	found *[]metric.Prediction) error {
	total := (rows.Len() + e.Batch - 1) / e.Batch
	repatch := func(change func() error) error { return change() } // the evaluator is closed
	measure := func() error {
		var seen func(b data.Batch, next []int32)
		if e.Metric.Name == metric.TokenAccuracy {
			*found = nil
			seen = func(b data.Batch, next []int32) {
				*found = append(*found, metric.Tokens(r.Name, b, next, in.tokenizer)...)
			}
		}
		ev, err := trainer.NewPredictor(in.model, in.memory, e.Batch, e.Seq, e.Seq, in.check, seen)
		if err != nil {
			return err
		}
		defer ev.Close()
		batches, failed := data.Stream(rows, e.Batch)
		set, end := a.progress.Count(total, "batches")
		defer end()
		if r.Loss, r.Targets, err = ev.Loss(ctx, ticking(in.check, batches, set)); err != nil {
			return err
		}
		return failed()
	}
	return in.check.Rightly(in.report, repatch, func() error { return trainer.Compared(in.check, measure) })
}

// ticking tells the checker of each batch, and set how many are done.
func ticking(c *crosscheck.Checker, batches iter.Seq[data.Batch], set func(done int)) iter.Seq[data.Batch] {
	return func(yield func(data.Batch) bool) {
		done := 0
		for b := range batches {
			c.Tick()
			if !yield(b) {
				return
			}
			done++
			set(done)
		}
	}
}
