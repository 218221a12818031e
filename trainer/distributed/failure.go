package distributed

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// failing is what a rank exchanges that has failed, whatever the others do at that point of the run.
const failing = "a failure"

// Failure is the error of a rank in whose place another has failed: that one has told it.
type Failure struct {
	Rank string // which one, and its machine
	Text string
}

// Error implements error.
func (f *Failure) Error() string { return f.Rank + ": " + f.Text }

// Fail tells all ranks that this one has failed, so that each ends by itself and leaves nothing behind: to them it is
// the error of their next Exchange. It returns once all ranks have come here, and does not where one never exchanges
// anything: call it with a limit.
func (w *World) Fail(text string) error {
	if w.all == nil {
		return errors.New("distributed: this rank has not joined the others")
	}
	for {
		x := w.newExchange(failing, []byte(text))
		done := make(chan error, 1)
		w.thread.jobs <- &job{x.advance, func(err error) { done <- err }}
		if err := <-done; err != nil {
			return fmt.Errorf("distributed: %s: %w", failing, err)
		}
		if len(x.failed) == w.size {
			return nil
		}
	}
}

// failures is the error of a rank that has not failed itself.
func (x *exchange) failures() error {
	var errs []error
	for _, rank := range x.failed {
		errs = append(errs, &Failure{x.world.Name(rank), string(x.all[rank])})
	}
	return errors.Join(errs...)
}

func sumOf(what string) uint32 { return crc32.ChecksumIEEE([]byte(what)) }
