package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/simd"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/tokenizer"
)

const quantizeLong = `Write a model folder with the weights of linear layers in int8, a quarter of
float32, for generate, serve and eval. The schemes:

  w8a8          activations become int8, too, with a scale and an offset for
                each layer, which --calibrate FILE shows: some hundred rows of
                the text that the model is for; where that shows a few very
                large numbers, with a scale for each token
  w8a8-dynamic  activations become int8 with a scale for each token
  int8          activations stay float32

The embedding, routers and experts stay as they are, and so do the layers of
--keep-float and, without --head, the head. The folder's config.json says what
is in it, with the names of the compressed-tensors format. Such a folder cannot
be trained: train first.`

// quantizeFlags are the values of quantize's flags.
type quantizeFlags struct {
	trainer.Config
	scheme string
	float  []string
	head   bool
}

func (a *app) quantizeCommand() *Command {
	c := &Command{Name: "quantize", Usage: "--model DIR --out DIR --scheme SCHEME [FLAGS]",
		Short: "write a model with weights in int8", Long: quantizeLong,
		Examples: "tune quantize --model DIR --out small --scheme w8a8-dynamic\n" +
			"tune quantize --model DIR --out small --scheme w8a8 --calibrate text.txt\n"}
	q := &quantizeFlags{Config: trainer.Default()}
	f := c.Group("Model")
	f.StringVar(&q.Model, "model", "", "the model `FOLDER`")
	f.StringVar(&q.Out, "out", "", "the `FOLDER` to save, which must not exist or be empty")
	f.StringVar(&q.scheme, "scheme", "", "the `SCHEME`, which says what becomes int8: "+
		strings.Join(trainer.Schemes(), ", "))
	f.StringArrayVar(&q.float, "keep-float", nil, "`LAYERS` that stay as they are, such as '*.down_proj'; may be given "+
		"again")
	f.BoolVar(&q.head, "head", false, "the head becomes int8, too, of which every token reads all")
	in := c.Group("Calibration of w8a8")
	in.StringArrayVar(&q.Data.Eval, "calibrate", nil, "a `FILE` or folder to calibrate with; may be given again")
	addRows(in, &q.Config)
	addDataReading(c.Group("Reading the data"), &q.Data)
	addThreads(c.Group("Machine"), &q.Threads)
	return c.finish(func(ctx context.Context, _ []string) error {
		if err := q.check(c); err != nil {
			return err
		}
		a.saves = true
		return a.quantize(ctx, q)
	})
}

// check validates what needs no file.
func (q *quantizeFlags) check(c *Command) error {
	for _, needed := range []string{"model", "out", "scheme"} {
		if c.Flags.Lookup(needed).Value.String() == "" {
			return c.usagef("--%s is missing: quantize needs --model, --out and --scheme", needed)
		}
	}
	if err := c.notStdout("folder", "out"); err != nil {
		return err
	}
	if err := c.oneOf("scheme", q.scheme, trainer.Schemes()...); err != nil {
		return err
	}
	static := q.scheme == string(trainer.W8A8)
	switch {
	case static && len(q.Data.Eval) == 0:
		return c.usagef("--scheme w8a8 needs --calibrate FILE: a text such as the model is for; w8a8-dynamic needs none")
	case !static && len(q.Data.Eval) > 0:
		return c.usagef("--calibrate is for --scheme w8a8: %s needs no text", q.scheme)
	}
	for _, pattern := range q.float {
		if _, err := path.Match(pattern, ""); err != nil {
			return c.usagef("--keep-float %s is no name of layers: %v", pattern, err)
		}
	}
	return c.misuse(q.Validate())
}

// text reads what is calibrated with.
func (q *quantizeFlags) text(ctx context.Context) (*corpus.Corpus, error) {
	tok, err := tokenizer.Load(q.Model)
	if err != nil {
		return nil, err
	}
	return corpus.LoadEval(ctx, q.Data, trainer.DataModel(q.Config, tok))
}

func (a *app) quantize(ctx context.Context, q *quantizeFlags) (err error) {
	simd.SetThreads(q.Threads)
	mem, err := newMemory()
	if err != nil {
		return err
	}
	defer closing(mem, &err)
	o := trainer.Quantization{Model: q.Model, Out: q.Out, Scheme: trainer.Scheme(q.scheme), Float: q.float,
		Head: q.head, Batch: q.Batch, Seq: q.Seq}
	if o.Scheme == trainer.W8A8 {
		var text *corpus.Corpus
		if text, err = q.text(ctx); err != nil {
			return err
		}
		defer closing(text, &err)
		o.Calibration = text.Eval
	}
	done, err := trainer.Quantize(ctx, o, mem)
	if err != nil {
		return err
	}
	if done.Tokens > 0 {
		a.note("activations measured on %s; %s of the int8 ones have a scale for each token, as one is too coarse",
			amount.Of(done.Tokens, "token"), amount.Of(len(done.Dynamic), "layer"))
	}
	fmt.Fprintf(a.stdout, "saved %s: %s in int8, %d as before\n", q.Out, amount.Of(len(done.Int8), "layer"),
		len(done.Float))
	return nil
}
