package crosscheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed98097648/tune/core"
)

// Checker compares the calls of a run's kernels with the plain forward: the first of each
// kernel that Watch returns, in each pass, and after Again the next. It is not safe for
// concurrent use, as kernels are not. The zero value is ready; a nil *Checker watches nothing.
type Checker struct {
	stats Stats
	round int
}

// Stats is what a Checker has done.
type Stats struct {
	Calls int           `json:"calls"` // compared
	Took  time.Duration `json:"-"`     // by that
}

// Stats returns what was done so far.
func (c *Checker) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	return c.stats
}

// Again makes the next call of every watched kernel, in each pass, be compared again.
func (c *Checker) Again() {
	if c != nil {
		c.round++
	}
}

// Watch returns the kernel as one site of one graph uses it: what it gives in the calls that
// are compared is handed on only if it is right. Otherwise the call fails with a
// *core.KernelError that has the *Mismatch for its cause.
func (c *Checker) Watch(k core.Kernel) core.Kernel {
	if c == nil {
		return k
	}
	return &watched{Kernel: k, checker: c, seen: [2]int{-1, -1}}
}

// watched is a kernel at one site of one graph.
type watched struct {
	core.Kernel
	checker *Checker
	seen    [2]int // the checker's round in which a call of each pass was compared last
}

// Forward implements core.Kernel.
func (w *watched) Forward(ctx context.Context, c *core.Call) error {
	return w.run(ctx, c, core.Forward)
}

// Backward implements core.Kernel.
func (w *watched) Backward(ctx context.Context, c *core.Call) error {
	return w.run(ctx, c, core.Backward)
}

// OutputMemory implements core.OutputMemory; it is nil for a kernel that has none.
func (w *watched) OutputMemory() core.Memory {
	if m, ok := w.Kernel.(core.OutputMemory); ok {
		return m.OutputMemory()
	}
	return nil
}

func (w *watched) run(ctx context.Context, c *core.Call, pass core.Pass) error {
	if err := core.Run(ctx, w.Kernel, c); err != nil || w.seen[pass] == w.checker.round {
		return err
	}
	w.seen[pass] = w.checker.round
	start := time.Now()
	err := Compare(c)
	if errors.Is(err, core.ErrNotSupported) {
		return nil
	}
	w.checker.stats.Calls++
	w.checker.stats.Took += time.Since(start)
	if err == nil {
		return nil
	}
	i := w.Info()
	return &core.KernelError{Kernel: i.Name, Op: c.Op, Pass: c.Pass, Site: c.Site, Err: err}
}

// Wrong returns the kernel's error if err says that a comparison has failed, else nil.
func Wrong(err error) *core.KernelError {
	var m *Mismatch
	var k *core.KernelError
	if errors.As(err, &m) && errors.As(err, &k) {
		return k
	}
	return nil
}

// String says what was done, for people.
func (s Stats) String() string {
	return fmt.Sprintf("%d uses of kernels on the run's own tensors in %.2g s", s.Calls, s.Took.Seconds())
}
