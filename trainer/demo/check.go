package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed98097648/tune/trainer/autograd"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/nn"
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
	w, err := d.newWriter()
	if err != nil {
		return nil, fmt.Errorf("demo: check: %w", err)
	}
	defer w.program.Close()
	s := &Score{Total: len(d.Held)}
	for chunk := range slices.Chunk(d.Held, d.together()) {
		texts := make([][]int32, len(chunk))
		for i, e := range chunk {
			texts[i] = d.tok.Encode(e.Prompt, true)
		}
		answers, err := w.goOn(ctx, texts)
		if err != nil {
			return nil, fmt.Errorf("demo: check: %w", err)
		}
		for i, e := range chunk {
			a := Answer{Example: e, Got: d.tok.Decode(answers[i], true)}
			if a.Right = slices.Equal(answers[i], d.target(e)); a.Right {
				s.Right++
			}
			s.Answers = append(s.Answers, a)
		}
	}
	return s, nil
}

// writer goes on where texts stop, a batch of them at a time.
type writer struct {
	program *nn.Compiled
	logits  *autograd.Value // [B*S, V]
	batch   data.Batch
	eos     int32
}

// together is how many examples are answered at a time: as many as a batch has, if there are so many.
func (d *Demo) together() int { return min(d.Job.Config.Batch, max(len(d.Held), 1)) }

func (d *Demo) newWriter() (*writer, error) {
	c, err := nn.NewContext(d.Job.Memory, d.together(), d.Job.Config.Seq, d.Job.Config.Seq)
	if err != nil {
		return nil, err
	}
	out := d.Job.Model.Forward(c)
	out.Logits.Keep()
	program, err := d.Job.Model.Compile(c, out.Loss, true)
	if err != nil {
		return nil, err
	}
	n := c.T()
	batch := data.Batch{B: c.B, S: c.S, IDs: make([]int32, n), Labels: slices.Repeat([]int32{data.Ignore}, n),
		Positions: make([]int32, n), Segments: make([]int32, n)}
	return &writer{program, out.Logits, batch, d.eos}, nil
}

// goOn returns the tokens that follow each text, up to the one that ends it or to the end
// of the row. Every token costs a whole forward pass, for there is no cache of keys and
// values. There must be no more texts than the batch has rows.
func (w *writer) goOn(ctx context.Context, texts [][]int32) ([][]int32, error) {
	whole := slices.Clone(texts)
	for slices.ContainsFunc(whole, w.open) {
		if err := w.fill(whole); err != nil {
			return nil, err
		}
		if _, err := w.program.Forward(ctx); err != nil {
			return nil, err
		}
		for i, text := range whole {
			if w.open(text) {
				whole[i] = append(slices.Clip(text), w.likeliest(i, len(text)-1))
			}
		}
	}
	for i, text := range texts {
		whole[i] = whole[i][len(text):]
	}
	return whole, nil
}

// open reports whether a text has not ended and the row has room for more of it.
func (w *writer) open(text []int32) bool {
	return len(text) < w.program.Batch.S && text[len(text)-1] != w.eos
}

// fill makes each text a row of the batch; the rest is padding.
func (w *writer) fill(texts [][]int32) error {
	b := w.batch
	clear(b.IDs)
	clear(b.Positions)
	clear(b.Segments)
	for i, text := range texts {
		row := i * b.S
		copy(b.IDs[row:], text)
		for t := range text {
			b.Positions[row+t], b.Segments[row+t] = int32(t), 1
		}
	}
	return w.program.Batch.Fill(b, 1) // the loss is zero, for nothing is labelled
}

// likeliest returns the token with the largest logit after position t of row i.
func (w *writer) likeliest(i, t int) int32 {
	logits := w.program.Tensor(w.logits)
	v := logits.Shape[1]
	row := logits.Float32s()[(i*w.program.Batch.S+t)*v:][:v]
	best := 0
	for id, l := range row {
		if l > row[best] {
			best = id
		}
	}
	return int32(best)
}
