package trainer

import (
	"maps"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/data"
	"github.com/seed98097648/tune/trainer/metric"
	"github.com/seed98097648/tune/trainer/preference"
)

// Hooks tell an observer what the loop does, in its own goroutine. Any may be nil. The
// loop knows nothing of terminals; package progress turns hooks into output.
type Hooks struct {
	OnPatch func(*core.Report) // the kernels are in place
	OnStart func(Start)
	OnStep  func(Step)
	OnEval  func(Eval) // again for the same step if a kernel turned out to be wrong meanwhile
	OnSave  func(path string)
	OnWork  func(Work) // of what is no step: how far it has come

	OnCheckpoint func(Checkpoint)
	OnWrong      func(*core.KernelError) // a kernel was wrong on the run's own tensors, and is taken off
	OnWarning    func(error)             // something that does not stop the run
}

// Start describes the run before its first step.
type Start struct {
	Model      string `json:"model"`      // the model_type
	Parameters int    `json:"parameters"` // of the model, adapters included
	Trainable  int    `json:"trainable"`  // of these, what is trained
	Rows       int    `json:"rows"`       // of training data
	EvalRows   int    `json:"eval_rows"`  // held out
	Steps      int    `json:"steps"`
	Config     Config `json:"config"`
	Resumed    int    `json:"-"` // steps done before, in a run that is resumed
}

// Step is one optimizer step.
type Step struct {
	Step                int     `json:"step"` // from 1
	Loss                float64 `json:"loss"`
	LR                  float64 `json:"lr"`
	GradNorm            float64 `json:"grad_norm"`
	TokensPer           float64 `json:"tokens_per_s"`
	*preference.Metrics         // nil without preferences

	Tokens int           `json:"-"` // processed, padding included
	Took   time.Duration `json:"-"`
	Update time.Duration `json:"-"` // of that in the optimizer
	Ranks  RankTimes     `json:"-"` // of several ranks
}

// Work is a part of a run that is no step and may take long: an evaluation, or what a reference says of all data.
type Work struct {
	What        string // such as "evaluating"
	Done, Total int    // rows or answers; it begins with 0 of them
}

// Eval is an evaluation on the held-out rows.
type Eval struct {
	Step                int                        `json:"step"` // steps done before it
	Loss                float64                    `json:"eval_loss"`
	Targets             int                        `json:"eval_targets"`
	*preference.Metrics `json:"metrics,omitempty"` // nil without preferences
	Scores              map[string]float64         `json:"scores,omitempty"` // by the names of metrics; nil without one
	Sets                []SetEval                  `json:"sets,omitempty"`   // where there are several; Loss is of all
}

// SetEval is an evaluation on one of several sets.
type SetEval struct {
	Name    string             `json:"name"`
	Loss    float64            `json:"eval_loss"`
	Targets int                `json:"eval_targets"`
	Scores  map[string]float64 `json:"scores,omitempty"`
}

// Score adds the score of the predictions that are of the set, if it asks anything.
func (s *SetEval) Score(name metric.Name, all []metric.Prediction) {
	own := slices.DeleteFunc(slices.Clone(all), func(p metric.Prediction) bool { return p.Data != s.Name })
	if len(own) > 0 {
		s.Scores = map[string]float64{string(name): name.Mean(own)}
	}
}

// named returns what an evaluation has besides its loss, by names: those of a set begin with that set's.
func (e Eval) named() map[string]float64 {
	all := map[string]float64{}
	maps.Copy(all, e.Metrics.Named())
	maps.Copy(all, e.Scores)
	for _, s := range e.Sets {
		all[s.Name+"/loss"] = s.Loss
		for name, v := range s.Scores {
			all[s.Name+"/"+name] = v
		}
	}
	return all
}

// Checkpoint is a checkpoint that was written.
type Checkpoint struct {
	Step int    // steps done
	Path string // its folder
}

func call[T any](f func(T), v T) {
	if f != nil {
		f(v)
	}
}

// followed are rows that are read in order, and tell how far that has come.
type followed struct {
	data.Rows
	tell func(read int)
}

func (f followed) Row(i int) (data.Row, error) {
	f.tell(i)
	return f.Rows.Row(i)
}

// follow returns rows of which the hook is told what is done with them, after so many of all.
func (r *session) follow(what string, rows data.Rows, before, all int) data.Rows {
	hook := r.job.Hooks.OnWork
	if hook == nil || rows == nil {
		return rows
	}
	return followed{rows, func(read int) { hook(Work{what, before + read, all}) }}
}
