package journal

import (
	"maps"
	"slices"
	"time"
)

// Scalar is a figure of a step or an evaluation, by the name that other programs know it by.
type Scalar struct {
	Name  string
	Value float64
}

// The names of scalars that every run has. What is before the slash groups them.
const (
	ScalarLoss     = "train/loss"
	ScalarLR       = "train/learning_rate"
	ScalarGradNorm = "train/grad_norm"
	ScalarRate     = "train/tokens_per_second"
	ScalarEval     = "eval/loss"
)

// Row is what there is to say of one step.
type Row struct {
	Time    time.Time
	Step    int
	Scalars []Scalar
}

// RowOf returns the figures of a *Step or an *Eval, and false for other events.
func RowOf(e Event) (Row, bool) {
	switch e := e.(type) {
	case *Step:
		return Row{e.Time, e.Step, named([]Scalar{{ScalarLoss, e.Loss}, {ScalarLR, e.LR}, {ScalarGradNorm, e.GradNorm},
			{ScalarRate, e.Rate()}}, "train/", e.Metrics)}, true
	case *Eval:
		return Row{e.Time, e.Step, named([]Scalar{{ScalarEval, e.Loss}}, "eval/", e.Metrics)}, true
	}
	return Row{}, false
}

// named adds metrics by their names.
func named(all []Scalar, prefix string, m Metrics) []Scalar {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, Scalar{prefix + name, m[name]})
	}
	return all
}

// Rows is a sink that makes one row of each step, whatever is told of it: a row is known once the run goes on
// to another step. A run that is resumed is one: what it has done before comes first.
type Rows struct {
	Write func(Row) error

	earlier *Run
	pending *Row
	failed  bool // half a row may be there, which another would spoil, too
}

var (
	_ Sink    = (*Rows)(nil)
	_ Resumer = (*Rows)(nil)
)

// Resume implements Resumer.
func (r *Rows) Resume(earlier *Run) { r.earlier = earlier.Snapshot() }

// Record implements Sink.
func (r *Rows) Record(e Event) error {
	if start, ok := e.(*Start); ok {
		return r.replay(start.Resumed)
	}
	if row, ok := RowOf(e); ok {
		return r.add(row)
	}
	return nil
}

// replay writes the rows of the steps that were done before.
func (r *Rows) replay(resumed int) error {
	earlier := r.earlier
	if r.earlier = nil; earlier == nil || resumed == 0 {
		return nil
	}
	evals := until(earlier.Evals, resumed+1, Eval.number)
	tell := func(below int) error {
		for len(evals) > 0 && evals[0].Step < below {
			if err := r.Record(&evals[0]); err != nil {
				return err
			}
			evals = evals[1:]
		}
		return nil
	}
	for _, s := range until(earlier.Steps, resumed+1, Step.number) {
		if err := tell(s.Step); err != nil {
			return err
		}
		if err := r.Record(&s); err != nil {
			return err
		}
	}
	return tell(resumed + 1)
}

func (r *Rows) add(row Row) error {
	if p := r.pending; p != nil && p.Step == row.Step {
		p.Time, p.Scalars = row.Time, append(p.Scalars, row.Scalars...)
		return nil
	}
	err := r.Flush()
	r.pending = &row
	return err
}

// Flush writes the row that is not known to be whole. After an error of Write nothing more is written.
func (r *Rows) Flush() error {
	p := r.pending
	if r.pending = nil; p == nil || r.failed {
		return nil
	}
	err := r.Write(*p)
	r.failed = err != nil
	return err
}
