package kerneltest

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed98097648/tune/core"
)

// Status is what came of a case.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Skipped Status = "skipped" // see Result.Reason
)

// Violation is one way in which a kernel breaks the contract in a case.
type Violation struct {
	Pass   string `json:"pass"`   // "forward" or "backward"; "" where no single call is at fault
	Tensor string `json:"tensor"` // "" where no single one is at fault
	Text   string `json:"text"`   // by how much and where, or the error
	err    error
}

// violation is what err says about a tensor, or about the call if name is "".
func violation(pass core.Pass, name string, err error) Violation {
	return Violation{Pass: pass.String(), Tensor: name, Text: err.Error(), err: err}
}

// general is a violation of no call in particular.
func general(err error) Violation { return Violation{Text: err.Error(), err: err} }

// Error implements error: the pass, the tensor and the text.
func (v Violation) Error() string {
	s := v.Text
	if v.Tensor != "" {
		s = v.Tensor + ": " + s
	}
	if v.Pass != "" {
		s = v.Pass + " " + s
	}
	return s
}

// Unwrap returns the cause, such as core.ErrWrongResult.
func (v Violation) Unwrap() error { return v.err }

// Result is what came of one case.
type Result struct {
	Case   string     `json:"case"` // its name, which no other case has
	Kind   string     `json:"kind"` // what it is about, such as "one token": the same for many facts
	Op     core.Op    `json:"op"`
	Facts  core.Facts `json:"facts,omitzero"`
	Tokens int        `json:"tokens,omitempty"`
	Status Status     `json:"status"`
	Reason string     `json:"reason,omitempty"` // why it was skipped
	// Refused says that it was skipped because the kernel does not support its facts.
	Refused bool `json:"-"`
	// Share is the largest error of any output as a share of what is allowed for it.
	Share      float64       `json:"share_of_limit"`
	Violations []Violation   `json:"violations,omitempty"`
	Memory     *Growth       `json:"memory,omitempty"`  // of the case about memory
	Latency    []Latency     `json:"latency,omitempty"` // of the case about latency, by pass
	Took       time.Duration `json:"took_ns"`
}

// fail adds violations.
func (r *Result) fail(v ...Violation) {
	if len(v) > 0 {
		r.Status, r.Violations = Failed, append(r.Violations, v...)
	}
}

// prefix says of all violations under which circumstances they occurred.
func (r *Result) prefix(format string, args ...any) {
	for i := range r.Violations {
		r.Violations[i].Text = fmt.Sprintf(format, args...) + r.Violations[i].Text
	}
}

// skip says why the case was not run.
func (r *Result) skip(format string, args ...any) {
	r.Status, r.Reason = Skipped, fmt.Sprintf(format, args...)
}

// Err joins the violations, each with the case's name; nil if there are none.
func (r Result) Err() error {
	var all []error
	for _, v := range r.Violations {
		all = append(all, fmt.Errorf("%s: %w", r.Case, v))
	}
	return errors.Join(all...)
}

// Report is what Examine found out about a kernel.
type Report struct {
	Kernel  core.Info     `json:"kernel"`
	Results []Result      `json:"results"`
	Stopped string        `json:"stopped,omitempty"` // why not all cases were run
	Took    time.Duration `json:"took_ns"`
}

// Count returns the number of results with that status.
func (r *Report) Count(s Status) int {
	n := 0
	for _, c := range r.Results {
		if c.Status == s {
			n++
		}
	}
	return n
}

// Err joins all violations; nil if there are none.
func (r *Report) Err() error {
	var all []error
	for _, c := range r.Results {
		all = append(all, c.Err())
	}
	return errors.Join(all...)
}
