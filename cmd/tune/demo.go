package main

import (
	"context"
	"fmt"
	"io"

	"github.com/seed98097648/tune/trainer/demo"
)

// ofFolders are the flags that say how the model and the data of a folder are taken. The built-in example reads
// neither, and would pass over them.
var ofFolders = []string{
	"eval-data", "eval-size", "data-format", "template", "dataset-dir", "max-samples", "skip-bad-rows",
	"train-on-prompt", "cut-long", "no-packing", "repeat-prompt", "system", "template-args", "mask-history",
	"mix", "mix-probs", "group-by-length", "stage", "ref-cache", "weights", "add-tokens", "add-special-tokens",
	"add-template-tokens", "pad-vocab", "train-modules", "train-layers", "freeze", "lora-rank", "adapter",
	"base-int8", "base-nf4", "metric", "max-new-tokens", "pref-loss", "pref-beta", "simpo-gamma",
	"dpo-label-smoothing", "pref-ftx", "kto-chosen-weight", "kto-rejected-weight",
}

// checkExample refuses these for the built-in example, by what they say and not by whether they are given: a
// saved tune.yaml gives every flag.
func checkExample(c *Command) error {
	for _, name := range ofFolders {
		if f := c.Flags.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			return c.usagef("--%s needs --model and --data: the built-in example has a model and data of its own, and trains "+
				"all of the model", name)
		}
	}
	return nil
}

// shownAnswers is how many of the demo's answers are printed.
const shownAnswers = 6

// checkDemo lets the model of the built-in example answer what it is not trained on, and
// prints the score and some of the answers.
func checkDemo(ctx context.Context, w io.Writer, d *demo.Demo, when string) error {
	s, err := d.Check(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s: %d of %d right, such as\n", when, s.Right, s.Total)
	for _, a := range s.Answers[:min(shownAnswers, len(s.Answers))] {
		verdict := "right"
		if !a.Right {
			verdict = "should be " + a.Want
		}
		fmt.Fprintf(w, "  %-30s %s\n", a.Prompt+a.Got, verdict)
	}
	return nil
}

const demoIntro = `No --model and no --data, so this is the built-in example: a small
mixture-of-experts model takes the wug test. It reads made-up words with their
plurals and past tenses, and is then asked for those of words it has never seen.
`
