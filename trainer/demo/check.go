package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/generate"
)

// Score is how the model did on the held-out examples.
type Score struct {
	Right, Total int
	Answers      []Answer // to all examples, in their order
}

// Answer is what the model made of an example.
type Answer struct {
	Example
	Got   string // cut off if the model did not end it within the row
	Right bool   // every letter is right, and the model ended it there
}

// Check lets the model answer every held-out example, as it is now and with the kernels
// that its sites hold. Each next letter is the likeliest one. The model's sites can be
// patched again afterwards.
func (d *Demo) Check(ctx context.Context) (*Score, error) {
	session := generate.NewSession(d.Job.Model, d.Job.Memory, d.Job.Config.Seq)
	defer session.Close()
	s := &Score{Total: len(d.Held)}
	for _, e := range d.Held {
		r, err := generate.Run(ctx, session, d.tok, d.tok.Encode(e.Prompt, true), generate.Options{EOS: []int32{d.eos}})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("demo: check: %w", err)
		}
		a := Answer{Example: e, Got: r.Text, Right: slices.Equal(r.Tokens, d.target(e))}
		if a.Right {
			s.Right++
		}
		s.Answers = append(s.Answers, a)
	}
	return s, nil
}
