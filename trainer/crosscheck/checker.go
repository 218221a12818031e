package crosscheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/amount"
	"github.com/seed98097648/tune/internal/clock"
)

// Checker compares the calls of a run's kernels with the plain forward: the first of each
// kernel that Watch returns, at each site, in each pass and of each shape, and the next after
// every so many Ticks. New makes it. It is not safe for concurrent use, as kernels are not. A nil *Checker
// watches nothing.
type Checker struct {
	// Every is how many Ticks there are from one comparison to the next; 0 for the first alone.
	Every int
	// Strict makes Rightly return the error of a kernel that is wrong.
	Strict bool
	// OnWrong is told of a kernel that was taken off so many sites; it may be nil.
	OnWrong func(w *core.KernelError, sites int)

	stats Stats
	ticks int
	round int
	right map[use]int // the round in which it was compared last
}

// use is what calls have in common of which one is compared: an evaluation that has the
// shapes of the training is the same use.
type use struct {
	kernel, site string
	pass         core.Pass
	facts        core.Facts
	axes         [4]int // the sizes that are no facts: 16 tokens are of one sequence, or of as many
	adds         bool
}

// New returns a Checker that compares again after so many Ticks, or nil for 0.
func New(every int) *Checker {
	if every == 0 {
		return nil
	}
	return &Checker{Every: every, right: map[use]int{}, stats: Stats{Left: map[core.Op]int{}}}
}

// Stats is what a Checker has done.
type Stats struct {
	Calls int             `json:"calls"`          // compared
	Took  time.Duration   `json:"-"`              // by that
	Left  map[core.Op]int `json:"left,omitempty"` // uses that Compare cannot judge
}

// Stats returns what was done so far.
func (c *Checker) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	return c.stats
}

// Tick tells that a step of a run begins, or whatever Every counts.
func (c *Checker) Tick() {
	if c == nil {
		return
	}
	if c.ticks > 0 && c.Every > 0 && c.ticks%c.Every == 0 {
		c.round++
	}
	c.ticks++
}

// Again has the next call of each kernel compared, whenever the last was.
func (c *Checker) Again() {
	if c != nil {
		c.round++
	}
}

// Round counts the times at which calls are compared anew; it is -1 of a nil Checker, which compares none.
func (c *Checker) Round() int {
	if c == nil {
		return -1
	}
	return c.round
}

// Watch returns the kernel as one site of one graph uses it: what it gives in the calls that
// are compared is handed on only if it is right. Otherwise the call fails with a
// *core.KernelError that has the *Mismatch for its cause.
func (c *Checker) Watch(k core.Kernel) core.Kernel {
	if c == nil {
		return k
	}
	return &watched{k, c}
}

// watched is a kernel at one site of one graph.
type watched struct {
	core.Kernel
	checker *Checker
}

// Forward implements core.Kernel.
func (w *watched) Forward(ctx context.Context, c *core.Call) error {
	return w.run(ctx, c, w.Kernel.Forward)
}

// Backward implements core.Kernel.
func (w *watched) Backward(ctx context.Context, c *core.Call) error {
	return w.run(ctx, c, w.Kernel.Backward)
}

// Series implements core.Serial: what need not be compared can go with others.
func (w *watched) Series(c *core.Call) (core.Series, core.Kernel) {
	if _, serial := w.Kernel.(core.Serial); !serial || !w.isRight(w.use(c)) {
		return nil, nil
	}
	return core.SeriesOf(w.Kernel, c)
}

// use says which one a call is.
func (w *watched) use(c *core.Call) use {
	return use{w.Info().Name, c.Site, c.Pass, c.Facts, c.Axes(), c.Adds()}
}

// isRight reports whether a use was compared in this round.
func (w *watched) isRight(u use) bool {
	round, ok := w.checker.right[u]
	return ok && round == w.checker.round
}

// OutputMemory implements core.OutputMemory; it is nil for a kernel that has none.
func (w *watched) OutputMemory() core.Memory { return core.OutputsOf(w.Kernel, nil) }

func (w *watched) run(ctx context.Context, c *core.Call, pass func(context.Context, *core.Call) error) error {
	u := w.use(c)
	if w.isRight(u) {
		return pass(ctx, c)
	}
	// Of a call that adds, what it adds is looked at by itself, and then the sum.
	written, free, err := c.Apart(w.OutputMemory())
	if err != nil {
		return err
	}
	defer free()
	if err := pass(ctx, written); err != nil {
		return err
	}
	start := clock.Now()
	if err = Compare(written); err == nil && c.Adds() {
		addBefore(c, written)
		if err := pass(ctx, c); err != nil {
			return err
		}
		err = compareSums(c, written)
	} else if err != nil {
		c.Join(written)
	}
	if err == nil || errors.Is(err, core.ErrNotSupported) {
		w.checker.right[u] = w.checker.round
	}
	if errors.Is(err, core.ErrNotSupported) {
		w.checker.stats.Left[c.Op]++
		return nil
	}
	w.checker.stats.Calls++
	w.checker.stats.Took += clock.Since(start)
	if err == nil {
		return nil
	}
	return &core.KernelError{Kernel: u.kernel, Op: c.Op, Pass: c.Pass, Site: c.Site, Err: err}
}

// Rightly runs f, which computes with kernels that are watched. When one of them is wrong,
// it takes the plugin's kernels off all sites that the report says hold them, and runs f
// again: f must not have changed anything by then that it reads. repatch closes the graphs,
// calls change and makes the graphs again.
func (c *Checker) Rightly(report *core.Report, repatch func(change func() error) error, f func() error) error {
	for {
		err := f()
		wrong := Wrong(err)
		if wrong == nil || c == nil || report == nil {
			return err
		}
		if c.Strict {
			return fmt.Errorf("strict: %w", err)
		}
		sites := 0
		err = repatch(func() (err error) {
			sites, err = report.TakeOff(wrong.Kernel,
				fmt.Sprintf("%s was wrong at %s and is taken off", wrong.Kernel, wrong.Site))
			return err
		})
		if err != nil {
			return fmt.Errorf("%w; without that kernel the run cannot go on: %w", wrong, err)
		}
		if sites == 0 {
			return wrong // placed by somebody else
		}
		if c.OnWrong != nil {
			c.OnWrong(wrong, sites)
		}
	}
}

// Wrong returns the kernel's error if err says that a comparison has failed, else nil.
func Wrong(err error) *core.KernelError {
	if _, ok := errors.AsType[*Mismatch](err); !ok {
		return nil
	}
	k, _ := errors.AsType[*core.KernelError](err)
	return k
}

// String says what was done, for people.
func (s Stats) String() string {
	text := fmt.Sprintf("%s of kernels on the run's own tensors in %.2g s", amount.Of(s.Calls, "use"), s.Took.Seconds())
	separator := "; not compared: "
	for _, op := range slices.Sorted(maps.Keys(s.Left)) {
		text += fmt.Sprintf("%s%s of %s", separator, amount.Of(s.Left[op], "use"), op)
		separator = ", "
	}
	return text
}
