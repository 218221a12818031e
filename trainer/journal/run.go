package journal

import (
	"cmp"
	"slices"
	"time"
)

// Run is what a journal comes to. The zero value has nothing in it yet. As a Sink it
// follows a run that goes on.
type Run struct {
	Start       *Start       `json:"start"` // the newest
	Began       time.Time    `json:"began"` // the first
	Sessions    int          `json:"sessions"`
	Steps       []Step       `json:"steps"` // each once, in rising order
	Evals       []Eval       `json:"evals"` // likewise
	Incidents   []Incident   `json:"incidents"`
	Checkpoints []Checkpoint `json:"checkpoints"`
	Warnings    []Warning    `json:"warnings"`
	Calls       []Call       `json:"calls"` // of all sessions together, as far as they told
	End         *End         `json:"end"`   // nil while the run goes on, or if it was killed
	Updated     time.Time    `json:"updated"`

	before []Call // those of the sessions before
}

var _ Sink = (*Run)(nil)

// Record adds an event. What is done again after a start replaces what was done before;
// accidents and warnings of that stay, since they have happened.
func (r *Run) Record(e Event) error {
	switch e := e.(type) {
	case *Start:
		r.start(e)
	case *Step:
		r.Steps = append(until(r.Steps, e.Step, Step.number), *e)
		r.Updated = e.Time
	case *Eval:
		r.Evals = append(until(r.Evals, e.Step, Eval.number), *e)
		r.Updated = e.Time
	case *Incident:
		r.Incidents, r.Updated = append(r.Incidents, *e), e.Time
	case *Checkpoint:
		r.Checkpoints, r.Updated = append(until(r.Checkpoints, e.Step, Checkpoint.number), *e), e.Time
	case *Warning:
		r.Warnings, r.Updated = append(r.Warnings, *e), e.Time
	case *Kernels:
		r.Calls, r.Updated = together(r.before, e.Calls), e.Time
	case *End:
		end := *e
		r.End, r.Updated = &end, e.Time
	}
	return nil
}

func (r *Run) start(e *Start) {
	start := *e
	if r.Start == nil || e.Resumed == 0 {
		*r = Run{Began: e.Time, Steps: []Step{}, Evals: []Eval{}, Incidents: []Incident{}, Checkpoints: []Checkpoint{},
			Warnings: []Warning{}, Calls: []Call{}}
	}
	r.Start, r.End, r.Updated = &start, nil, e.Time
	r.Sessions++
	r.before = r.Calls
	r.Steps = until(r.Steps, e.Resumed+1, Step.number)
	r.Evals = until(r.Evals, e.Resumed+1, Eval.number)
	r.Checkpoints = until(r.Checkpoints, e.Resumed+1, Checkpoint.number)
}

// Best returns the evaluation with the least loss. The one before the first step is not among them: it measures the
// model that the run began with, which is no result of it.
func (r *Run) Best() (Eval, bool) {
	trained := r.Evals
	if len(trained) > 0 && trained[0].Step == 0 {
		trained = trained[1:]
	}
	if len(trained) == 0 {
		return Eval{}, false
	}
	return slices.MinFunc(trained, func(a, b Eval) int { return cmp.Compare(a.Loss, b.Loss) }), true
}

// The states of a run.
const (
	Unended     = "open" // it goes on, or was killed
	Ended       = "ended"
	Interrupted = "interrupted"
	Failed      = "failed"
)

// State returns how the run stands.
func (r *Run) State() string {
	switch {
	case r.End == nil:
		return Unended
	case r.End.Error != "":
		return Failed
	case r.End.Interrupted:
		return Interrupted
	}
	return Ended
}

// Loss returns the mean loss of the steps, as train_loss in transformers; 0 without any.
func (r *Run) Loss() float64 {
	sum := 0.0
	for _, s := range r.Steps {
		sum += s.Loss
	}
	return sum / float64(max(len(r.Steps), 1))
}

// Snapshot returns a copy that does not change when r goes on.
func (r *Run) Snapshot() *Run {
	s := *r // Record appends to slices and replaces pointers, but never changes what they hold
	return &s
}

func (s Step) number() int       { return s.Step }
func (e Eval) number() int       { return e.Step }
func (c Checkpoint) number() int { return c.Step }

// until returns what is numbered below n. If that is not all, it is a copy, so that nothing
// is overwritten in a snapshot.
func until[T any](all []T, n int, number func(T) int) []T {
	if len(all) == 0 || number(all[len(all)-1]) < n {
		return all
	}
	i, _ := slices.BinarySearchFunc(all, n, func(v T, n int) int { return cmp.Compare(number(v), n) })
	return slices.Clone(all[:i])
}

// together adds the calls of the same operations up, what took longest first.
func together(lists ...[]Call) []Call {
	var sum []Call
	at := map[Call]int{}
	for _, list := range lists {
		for _, c := range list {
			key := Call{Op: c.Op, Kernel: c.Kernel, Pass: c.Pass}
			i, ok := at[key]
			if !ok {
				i = len(sum)
				at[key], sum = i, append(sum, key)
			}
			sum[i].Calls += c.Calls
			sum[i].Seconds += c.Seconds
		}
	}
	slices.SortStableFunc(sum, func(a, b Call) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return sum
}
