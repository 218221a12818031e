package main

import (
	"context"
	"fmt"
	"io"

	"github.com/seed98097648/tune/trainer/demo"
)

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
