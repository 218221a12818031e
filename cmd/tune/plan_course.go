package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/trainer"
	"github.com/seed98097648/tune/trainer/data/corpus"
	"github.com/seed98097648/tune/trainer/forecast"
	"github.com/seed98097648/tune/trainer/models"
)

// course is what a run will do with its data.
type course struct {
	Rows     int       `json:"rows"`      // to train on
	EvalRows int       `json:"eval_rows"` // held out, or those of --eval-data
	Steps    int       `json:"steps"`
	Warmup   int       `json:"warmup_steps"`
	Lengths  []int     `json:"shorter_rows,omitempty"` // the lengths of other graphs, below the longest
	Counted  int       `json:"counted_tokens"`         // of a batch, that count in the loss, at most
	Row      float64   `json:"tokens_a_row,omitempty"` // the mean of the first epoch; 0 where all are the longest
	Rates    []float64 `json:"learning_rates"`         // of each step
	Decayed  []string  `json:"decayed"`                // trained tensors with weight decay
	Others   []string  `json:"not_decayed"`
	read     *corpus.Corpus
}

// Close gives back what was read.
func (c *course) Close() error {
	if c == nil {
		return nil
	}
	return c.read.Close()
}

// of is a run with these data.
func (c *course) of(r forecast.Run) forecast.Run {
	if c != nil {
		r.Lengths, r.Counted = c.Lengths, c.Counted
	}
	return r
}

// course reads the data, if there is any, and says what the run will do with it, which is to be closed. Rows may
// turn out to be shorter than the configuration has them.
func (t *trainFlags) course(ctx context.Context, a *app, m *models.Model) (_ *course, err error) {
	if len(t.config.Data.Paths) == 0 {
		return nil, nil
	}
	tok, err := t.config.Tokenizer()
	if err != nil {
		return nil, err
	}
	read, err := corpus.Load(ctx, t.config.Data, trainer.DataModel(t.config, tok))
	if err != nil {
		return nil, err
	}
	defer closingFailed(read, &err)
	if err := a.noteData(t.config.Data, read); err != nil {
		return nil, err
	}
	t.config.Seq = read.Seq
	job := &trainer.Job{Config: t.config, Train: read.Train, Eval: read.Eval, Sets: read.Sets, Tokenizer: tok}
	if err := job.CheckEval(); err != nil {
		return nil, err
	}
	if _, err := job.Questions(); err != nil {
		return nil, err
	}
	s := job.Schedule()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := &course{read: read, Rows: read.Train.Len(), EvalRows: read.Eval.Len(), Steps: s.Steps, Warmup: s.Warmup,
		Decayed: []string{}, Others: []string{}}
	if err := c.deal(job); err != nil {
		return nil, err
	}
	for n := range s.Steps {
		c.Rates = append(c.Rates, s.At(n))
	}
	for _, p := range m.Trainable() {
		names := &c.Decayed
		if !t.config.DecayAll && trainer.Undecayed(p) {
			names = &c.Others
		}
		for _, e := range p.Entries {
			*names = append(*names, e.Name)
		}
	}
	return c, nil
}

// deal says how long the rows of batches are.
func (c *course) deal(job *trainer.Job) error {
	loader, shorter, err := job.Deal()
	if err != nil {
		return err
	}
	if c.Counted, err = job.Counted(loader); err != nil || len(shorter) == 0 {
		return err
	}
	longest, err := loader.Longest()
	c.Lengths = shorter
	for _, n := range longest {
		length := job.Config.Seq
		if i, _ := slices.BinarySearch(shorter, n); i < len(shorter) {
			length = shorter[i]
		}
		c.Row += float64(length) / float64(len(longest))
	}
	return err
}

func (c *course) print(w io.Writer, config trainer.Config) {
	fmt.Fprintf(w, "data         %s to train on, %d to evaluate on\n", amount.Of(c.Rows, "row"), c.EvalRows)
	if c.Lengths != nil {
		fmt.Fprintf(w, "lengths      rows of %s or %d tokens, of %.0f on the mean\n",
			strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Lengths), " ", ", "), "[]"), config.Seq, c.Row)
	}
	fmt.Fprintf(w, "run          %s, %d of warm-up; %s at a rate of %g\n", amount.Of(c.Steps, "step"),
		min(c.Warmup, c.Steps), config.Schedule, config.LR)
	fmt.Fprintf(w, "decay        %g, of %d of the %s that are trained\n", config.WeightDecay, len(c.Decayed),
		amount.Of(len(c.Decayed)+len(c.Others), "tensor"))
}
