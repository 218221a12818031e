package jinja

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// What one rendering may cost. A conversation of a thousand messages through the longest
// template known needs about a tenth of the steps.
const (
	maxSteps = 10_000_000 // nodes evaluated, items gone through
	maxBytes = 256 << 20  // bytes of the strings and lists made on the way, and of the output
	maxDepth = 10_000     // nodes within nodes, macros within macros, values within values
	maxRange = 100_000    // numbers in a range, as in Python's sandbox
)

var (
	errSteps = fmt.Errorf("the template takes more than %d steps: it does not seem to be a chat template", maxSteps)
	errBytes = fmt.Errorf("the template makes more than %d MiB of text: it does not seem to be a chat template", maxBytes>>20)
	errDepth = errors.New("the template calls itself, or nests its values, too deeply")
)

// Options are the settings of one rendering.
type Options struct {
	Now func() time.Time // what strftime_now tells; nil is time.Now
}

// run is the state of one rendering.
type run struct {
	source
	lib         *library
	now         func() time.Time
	out         *strings.Builder
	steps       int
	bytes       int
	depth       int
	captures    int // how many of the outputs around this one are captured
	generations []Range
	hidden      bool // a generation block wrote to a captured output
}

func newRun(t *Template, o Options) *run {
	r := &run{lib: &python, now: o.Now, out: new(strings.Builder)}
	if t != nil {
		r.source = t.source
	}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// enter counts a step and one more level of nesting; leave ends the level.
func (r *run) enter() error {
	if r.depth++; r.depth > maxDepth {
		return errDepth
	}
	return r.step(1)
}

func (r *run) leave() { r.depth-- }

// step counts n steps.
func (r *run) step(n int) error {
	if r.steps += n; r.steps > maxSteps {
		return errSteps
	}
	return nil
}

// charge counts n bytes made. What is large is charged before it is made.
func (r *run) charge(n int) error {
	if n > maxBytes-r.bytes || n < 0 {
		r.bytes = maxBytes
		return errBytes
	}
	r.bytes += n
	return nil
}

// chargeItems counts the making of a list of n items, 16 bytes each.
func (r *run) chargeItems(n int) error {
	if n > maxBytes/16 {
		return errBytes
	}
	return r.charge(16 * n)
}

// made charges a string just made and returns it.
func (r *run) made(s string) (any, error) {
	if err := r.charge(len(s)); err != nil {
		return nil, err
	}
	return s, nil
}

// madeItems charges a list just made and returns it.
func (r *run) madeItems(items []any) (any, error) {
	if err := r.chargeItems(len(items)); err != nil {
		return nil, err
	}
	return items, nil
}

// write adds to the output.
func (r *run) write(s string) error {
	if err := r.charge(len(s)); err != nil {
		return err
	}
	_, err := io.WriteString(r.out, s)
	return err
}

// capture runs f and returns what it wrote.
func (r *run) capture(f func() error) (string, error) {
	outer := r.out
	r.out = new(strings.Builder)
	r.captures++
	err := f()
	s := r.out.String()
	r.out = outer
	r.captures--
	return s, err
}
