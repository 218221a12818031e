package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/plainjson"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/generate"
	"github.com/seed98097648/tune/trainer/measure"
)

const evalLong = `Measure how well a model knows a text: its mean loss for each token, and the
perplexity, which is exp(loss). Documents are packed into rows as for training.

A conversation, in any of the formats that train takes, is scored on the
assistant's words alone. With --exact-match the model also answers what each
conversation asks first, by its likeliest tokens, and the answer counts if it is
the expected one, white space around them aside.

With --json the result is one object, with the fields model, data, rows,
targets, loss, perplexity, and with --exact-match also right, asked and answers.`

// evalFlags are the values of eval's flags.
type evalFlags struct {
	inferenceFlags
	exact     bool
	newTokens int
	json      bool
}

func (a *app) evalCommand() *Command {
	c := &Command{Name: "eval", Usage: "--model DIR --data FILE [FLAGS]",
		Short: "measure a model's loss on a text, and its answers", Long: evalLong,
		Examples: "tune eval --model DIR --data test.txt\ntune eval --model DIR --data test.jsonl --exact-match --json\n"}
	e := &evalFlags{inferenceFlags: newInferenceFlags()}
	in := c.Group("Model and data")
	e.addModel(in)
	in.StringArrayVar(&e.Data.Eval, "data", nil, "a `FILE` or folder to measure on, or a name of --dataset-dir; may "+
		"be given again")
	addRows(in, &e.Config)
	in.BoolVar(&e.exact, "exact-match", false, "let the model answer the prompts of the data, too")
	in.IntVar(&e.newTokens, "max-new-tokens", 256, "the most `TOKENS` of an answer")
	addDataReading(c.Group("Reading the data"), &e.Data)
	addTalk(c.Groups[len(c.Groups)-1].Flags, &e.Data.Talk)
	e.addMachine(c.Group("Machine and output"), "`BATCHES`")
	c.Groups[2].Flags.BoolVar(&e.json, "json", false, "write one JSON object")
	return c.finish(func(ctx context.Context, _ []string) error {
		if err := e.check(c); err != nil {
			return err
		}
		return a.eval(ctx, c, e)
	})
}

// check validates what needs no file.
func (e *evalFlags) check(c *Command) error {
	if err := e.inferenceFlags.check(c); err != nil {
		return err
	}
	switch {
	case len(e.Data.Eval) == 0:
		return c.usagef("--data is not given: name the text to measure on")
	case e.newTokens < 1:
		return c.usagef("--max-new-tokens is %d, must be positive", e.newTokens)
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
}

// answer is what a model made of a prompt.
type answer struct {
	Want  string `json:"want"`
	Got   string `json:"got"`
	Right bool   `json:"right"`
}

func (a *app) eval(ctx context.Context, c *Command, e *evalFlags) (err error) {
	in, err := e.open(ctx, a, c)
	if err != nil {
		return err
	}
	defer closing(in, &err)
	if err := in.model.Config.CheckLength("--seq", e.Seq); err != nil {
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
	var asked []question
	if e.exact {
		if asked, err = questions(held, in.tokenizer); err != nil {
			return err
		}
		if len(asked) == 0 {
			return fmt.Errorf("--exact-match: %s has no conversations, and asks nothing", strings.Join(e.Data.Eval, ", "))
		}
	}
	report, err := in.place(ctx, a, &e.inferenceFlags, measure.Run{Batch: e.Batch, Seq: e.Seq})
	if err != nil {
		return err
	}
	if report != nil {
		fmt.Fprint(a.stderr, report)
	}
	r := &evaluation{Model: e.Model, Data: strings.Join(e.Data.Eval, ", "), Rows: held.Eval.Len()}
	if err := a.evalLoss(ctx, in, e, held.Eval, r); err != nil {
		return err
	}
	if e.exact {
		if err := a.evalAnswers(ctx, in, e, asked, r); err != nil {
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
	if err == nil && r.Asked != nil {
		_, err = fmt.Fprintf(w, "  exact match  %d of %d (%.1f%%)\n", *r.Right, *r.Asked,
			100*float64(*r.Right)/float64(*r.Asked))
	}
	return err
}

// evalLoss measures the loss.
func (a *app) evalLoss(ctx context.Context, in *inference, e *evalFlags, rows data.Rows, r *evaluation) error {
	total := (rows.Len() + e.Batch - 1) / e.Batch
	repatch := func(change func() error) error { return change() } // the evaluator is closed
	err := in.check.Rightly(in.report, repatch, func() error {
		ev, err := trainer.NewEvaluator(in.model, in.memory, e.Batch, e.Seq, e.Seq, in.check)
		if err != nil {
			return err
		}
		defer ev.Close()
		stream, failed := data.Stream(rows, e.Batch)
		batches := counted(stream, func(n int) { a.note("loss: %d of %d batches", n, total) })
		if r.Loss, r.Targets, err = ev.Loss(ctx, ticking(in.check, batches)); err != nil {
			return err
		}
		return failed()
	})
	r.Perplexity = math.Exp(r.Loss)
	return err
}

// ticking tells the checker of each batch.
func ticking[T any](c *crosscheck.Checker, batches iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for b := range batches {
			c.Tick()
			if !yield(b) {
				return
			}
		}
	}
}

// evalAnswers lets the model answer, several questions at once.
func (a *app) evalAnswers(ctx context.Context, in *inference, e *evalFlags, questions []question,
	r *evaluation) error {
	defaults, err := generate.LoadDefaults(e.Model)
	if err != nil {
		return err
	}
	o := generate.Options{MaxNewTokens: e.newTokens, EOS: defaults.EOS}
	if id, ok := in.tokenizer.EOS(); ok {
		o.EOS = append(o.EOS, id)
	}
	engine, err := generate.NewEngine(in.model, in.tokenizer, in.memory, new(engineSize).config(in.model))
	if err != nil {
		return err
	}
	defer engine.Close()
	engine.Check(in.check, in.report)
	r.Right, r.Asked = new(int), new(int)
	note := nowAndThen(func(n int) { a.note("exact match: %d right of %d, %d to go", *r.Right, n, len(questions)-n) })
	return generate.InOrder(ctx, len(questions), func(ctx context.Context, i int) (answer, error) {
		q, own := questions[i], o
		own.EOS = append(o.EOS[:len(o.EOS):len(o.EOS)], q.stop...)
		out, err := engine.Generate(ctx, generate.Request{Prompt: q.prompt, Options: own})
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return answer{}, fmt.Errorf("question %d: %w", i+1, err)
		}
		got := answer{Want: q.answer, Got: strings.TrimSpace(out.Text)}
		got.Right = got.Got == got.Want
		return got, nil
	}, func(i int, got answer) error {
		if got.Right {
			*r.Right++
		}
		*r.Asked++
		r.Answers = append(r.Answers, got)
		note(i + 1)
		return nil
	})
}

// noteEvery is how long a measurement is silent.
const noteEvery = 5 * time.Second

// counted calls note, now and then, with how many values have been taken.
func counted[T any](values iter.Seq[T], note func(n int)) iter.Seq[T] {
	note = nowAndThen(note)
	return func(yield func(T) bool) {
		n := 0
		for v := range values {
			if !yield(v) {
				return
			}
			n++
			note(n)
		}
	}
}

// nowAndThen returns note, which is silent for some time after each call.
func nowAndThen(note func(n int)) func(n int) {
	last := time.Now()
	return func(n int) {
		if time.Since(last) > noteEvery {
			note(n)
			last = time.Now()
		}
	}
}
