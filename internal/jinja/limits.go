package jinja

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// What one rendering may cost. Templates come with downloaded models and nobody reads them
// before they run, so one that loops or grows without end has to be an error. A
// conversation of a thousand messages through the longest template known needs about a
// tenth of the steps.
const (
	maxSteps = 10_000_000 // nodes evaluated, items gone through
	maxBytes = 256 << 20  // bytes of the strings and lists made on the way, and of the output
	maxDepth = 10_000     // nodes within nodes, macros within macros, values within values
	maxRange = 100_000    // numbers in a range, as in Python's sandbox
)

const noTemplate = ": it does not seem to be a chat template"

var (
	errSteps = fmt.Errorf("the template takes more than %d steps"+noTemplate, maxSteps)
	errBytes = fmt.Errorf("the template makes more than %d MiB of text"+noTemplate, maxBytes>>20)
	errDepth = errors.New("the template calls itself, or nests its values, too deeply")
)

// Options are the settings of one rendering.
type Options struct {
	Now func() time.Time // what strftime_now tells; nil is time.Now
}

// run is the state of one rendering.
type run struct {
	source
	lib         library
	now         func() time.Time
	out         *strings.Builder
	pos         int // of the node that is being run: where an error is said to be
	steps       int
	bytes       int
	depth       int
	captures    int // how many of the outputs around this one are captured
	generations []Range
	hidden      bool // a generation block wrote to a captured output
}

func newRun(o Options) *run {
	r := &run{lib: library{"filter": filters, "test": tests}, now: o.Now, out: new(strings.Builder)}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// enter counts a step and one more level of nesting; leave ends the level. The depth is bounded
// because a stack that is full ends a Go program, and no recover helps.
func (r *run) enter() {
	if r.depth++; r.depth > maxDepth {
		panic(failure{errDepth})
	}
	r.step(1)
}

func (r *run) leave() { r.depth-- }

// step counts n steps.
func (r *run) step(n int) {
	if r.steps += n; r.steps > maxSteps {
		panic(failure{errSteps})
	}
}

// charge counts n bytes made, whether or not they are still in use: a bound on the sum needs no
// account of what is freed. What can be far larger than what it is made of is charged
// before it is made; of all else the node that made it charges the result (see made).
func (r *run) charge(n int) {
	if n > maxBytes-r.bytes || n < 0 {
		r.bytes = maxBytes
		panic(failure{errBytes})
	}
	r.bytes += n
}

// chargeTimes charges n things of size bytes each, whose product may overflow.
func (r *run) chargeTimes(n int64, size int) {
	if size > 0 && n > maxBytes/int64(size) {
		panic(failure{errBytes})
	}
	r.charge(int(n) * size)
}

// itemSize is what an item of a list is charged with.
const itemSize = 16

// made charges a value just made and returns it.
func (r *run) made(v any) any {
	switch v := v.(type) {
	case string:
		r.charge(len(v))
	case []any:
		r.charge(itemSize * len(v))
	case Tuple:
		r.charge(itemSize * len(v))
	case *Dict:
		r.charge(4 * itemSize * v.Len())
	case *view:
		r.charge(itemSize * len(v.items))
	}
	return v
}

// write adds to the output. A body that is captured and printed counts twice, as it takes
// room twice.
func (r *run) write(s string) {
	r.charge(len(s))
	r.out.WriteString(s)
}

// capture runs f and returns what it wrote.
func (r *run) capture(f func()) string {
	outer := r.out
	r.out = new(strings.Builder)
	r.captures++
	f()
	s := r.out.String()
	r.out = outer
	r.captures--
	return s
}
