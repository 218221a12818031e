package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/trainer/crosscheck"
	"github.com/seed98097648/tune/trainer/distributed"
)

// failure is what ranks tell each other of an error. All must do the same about it.
type failure struct {
	Kind  failureKind
	Text  string               `json:",omitempty"`
	Wrong *core.KernelError    `json:",omitempty"` // without its cause, which is
	At    *crosscheck.Mismatch `json:",omitempty"`
}

// failureKind says what is to be done, the most urgent last.
type failureKind int

const (
	innocent  failureKind = iota + 1 // a number is not finite, for which this rank has no reason
	infinite                         // a number is not finite
	spoiled                          // a plugin has died while it was adding: to be done again, apart
	wrong                            // a kernel has computed wrongly, and is taken off
	ended                            // somebody has asked for the end
	unhelpful                        // the run cannot go on
)

// errInnocent is wrapped by the error of a number that is not finite and was computed of finite ones.
var errInnocent = errors.New("of finite numbers")

func encodeFailure(err error) []byte {
	if err == nil {
		return nil
	}
	f := failure{Kind: unhelpful, Text: err.Error()}
	switch w := crosscheck.Wrong(err); {
	case w != nil:
		f.Kind, f.Wrong = wrong, &core.KernelError{Kernel: w.Kernel, Op: w.Op, Pass: w.Pass, Site: w.Site}
		errors.As(err, &f.At)
	case errors.Is(err, context.Canceled):
		f.Kind = ended
	case errors.Is(err, core.ErrSpoiled):
		f.Kind = spoiled
	case errors.Is(err, errInnocent):
		f.Kind = innocent
	case errors.Is(err, ErrNonFinite):
		f.Kind = infinite
	}
	if f.At != nil { // JSON has no number that is not finite
		f.At = &crosscheck.Mismatch{Tensor: f.At.Tensor, At: f.At.At, Row: f.At.Row}
	}
	b, _ := json.Marshal(f) // of numbers that are finite, and texts
	return b
}

// worst returns the error of all ranks: this rank's own if it is the one, else what the other has told.
func worst(w *distributed.World, messages [][]byte, own error) error {
	var f failure
	at := -1
	for rank, m := range messages {
		var other failure
		if len(m) > 0 && json.Unmarshal(m, &other) == nil && other.Kind > f.Kind {
			f, at = other, rank
		}
	}
	if at < 0 || at == w.Rank() {
		return own
	}
	text := fmt.Sprintf("%s: %s", w.Name(at), f.Text)
	switch f.Kind {
	case wrong:
		if f.Wrong != nil && f.At != nil {
			f.Wrong.Err = &elsewhere{text, f.At}
			return f.Wrong
		}
	case ended:
		return &elsewhere{text, context.Canceled}
	case spoiled:
		return &elsewhere{text, core.ErrSpoiled}
	case innocent, infinite:
		if _, ok := errors.AsType[*notFinite](own); ok {
			return own // which is to be explained yet
		}
		return &elsewhere{text, errors.Join(ErrNonFinite, errInnocent)}
	}
	return &elsewhere{text, nil}
}

// elsewhere is the error of another rank.
type elsewhere struct {
	text  string
	cause error
}

// Error implements error.
func (e *elsewhere) Error() string { return e.text }

// Unwrap returns the cause.
func (e *elsewhere) Unwrap() error { return e.cause }
