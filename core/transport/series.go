package transport

import (
	"context"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/wire"
)

var _ core.Series = (*instance)(nil)

// RunSeries implements core.Series. Calls go to the process together as far as nothing has to be done before or behind
// them: those that add to outputs, whose tensors have to be copied, or that return indices, go alone.
func (i *instance) RunSeries(ctx context.Context, steps []core.Step, took func(n int, d time.Duration)) (int, error) {
	for at := 0; at < len(steps); {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		start := clock.Now()
		busy, err := i.together(ctx, steps[at:])
		if len(busy) == 0 && err == nil {
			err = core.Run(ctx, steps[at].Kernel, steps[at].Call)
			busy = []time.Duration{0}
		}
		share(busy, clock.Since(start), func(n int, d time.Duration) {
			if took != nil {
				took(at+n, d)
			}
		})
		if err != nil {
			return at + len(busy) - 1, err
		}
		at += len(busy)
	}
	return len(steps), nil
}

// share tells what part of a time each of several calls has: what it is known to have taken, and of the rest as much
// as the others.
func share(known []time.Duration, all time.Duration, tell func(n int, d time.Duration)) {
	rest := all
	for _, d := range known {
		rest -= d
	}
	for n, d := range known {
		part := rest / time.Duration(len(known)-n)
		rest -= part
		tell(n, d+part)
	}
}

// together runs as many of the steps, from the first on, as the process can be asked for at once, if it is there, and
// returns how long their kernels ran. An error is about the last of these. None means that the first is to go alone.
func (i *instance) together(ctx context.Context, steps []core.Step) (busy []time.Duration, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.proc == nil || i.proc.gone() || i.proc.forget() != nil {
		return nil, nil
	}
	steps = i.fitting(steps)
	if len(steps) < 2 {
		return nil, nil
	}
	handles, steps := i.handles(steps)
	steps, size := i.records(handles, steps)
	if len(steps) < 2 || i.proc.stopped() {
		return nil, nil
	}
	return i.askTogether(ctx, steps, size)
}

// fitting returns the steps, from the first on, that need no more than a record that fits.
func (i *instance) fitting(steps []core.Step) []core.Step {
	size := 0
	for n, s := range steps {
		k, ok := s.Kernel.(*kernel)
		size += wire.RecordSize(len(s.Call.In) + len(s.Call.Out))
		if !ok || k.plugin.instance != i || k.plugin.lost != nil || k.plugin.closed {
			return steps[:n]
		}
		if n == i.proc.link.most() || size > wire.MaxRecord || s.Call.Adds() || !i.reaches(s.Call) ||
			k.info.Accepts(s.Call) != nil {
			return steps[:n]
		}
	}
	return steps
}

// reaches reports whether the process can read and write all tensors of a call where they are, and may do so:
// indices are looked at before anybody uses them.
func (i *instance) reaches(c *core.Call) bool {
	unreached := func(t core.Tensor) bool {
		_, _, ok := i.locate(t.Data)
		return !ok && len(t.Data) > 0
	}
	unwritten := func(t core.Tensor) bool {
		r, _, ok := i.locate(t.Data)
		return t.DType == core.Int32 || len(t.Data) > 0 && !(ok && i.output.Has(r))
	}
	return !slices.ContainsFunc(c.In, unreached) && !slices.ContainsFunc(c.Out, unwritten)
}

// handles returns those of the steps, as far as the process gives them.
func (i *instance) handles(steps []core.Step) ([]uint32, []core.Step) {
	handles := make([]uint32, len(steps))
	for n, s := range steps {
		k := s.Kernel.(*kernel) // see fitting
		k.plugin.resting = false
		h, err := i.proc.bind(binding{k.number, s.Call.Pass, s.Call.Facts})
		if err != nil {
			return handles[:n], steps[:n]
		}
		handles[n] = h
	}
	return handles, steps
}

// records writes the records of the steps, as far as the process lives, and returns their size.
func (i *instance) records(handles []uint32, steps []core.Step) (written []core.Step, size int) {
	for n, s := range steps {
		if i.proc.stopped() {
			return steps[:n], size
		}
		if _, err := i.write(i.proc.link.record()[size:], handles[n], s.Call); err != nil {
			return steps[:n], size
		}
		size += wire.RecordSize(len(s.Call.In) + len(s.Call.Out))
	}
	return steps, size
}

// askTogether has the process run the steps, whose records are written. What has to be done about one that fails is
// what is done about a call that was alone.
func (i *instance) askTogether(ctx context.Context, steps []core.Step, size int) (busy []time.Duration, err error) {
	link := i.proc.link
	running := func() (*kernel, *core.Call) {
		s := steps[min(link.finished(), len(steps)-1)]
		return s.Kernel.(*kernel), s.Call
	}
	limit := func() time.Duration {
		_, c := running()
		return i.opts.limit(c.Work())
	}
	start := clock.Now()
	a, err := i.proc.call(ctx, wire.Series, size, limit, func(waited time.Duration) {
		k, c := running()
		k.plugin.sayWaiting(c, waited, limit())
	})
	done := len(steps)
	if err == nil {
		err = statusError(a)
	}
	if err != nil {
		done = min(link.finished(), len(steps)-1)
	}
	busy = make([]time.Duration, done)
	if err == nil && len(a.Text) == 8*len(steps) {
		for n := range busy {
			busy[n] = wire.Nanoseconds(wire.Order.Uint64([]byte(a.Text[8*n:])))
		}
	}
	i.account(steps[:done], busy, clock.Since(start))
	if i.proc.stopped() {
		i.drop()
	}
	if err == nil {
		return busy, nil
	}
	failed := steps[done]
	k := failed.Kernel.(*kernel)
	k.count(func(h *core.Health) { h.Calls++ })
	err = k.plugin.settle(ctx, k, failed.Call, i.opts.Strict, err)
	return append(busy, 0), k.named(ctx, failed.Call, err)
}

// account counts calls that succeeded, and corrects the times that the plugin claims: it may claim anything.
func (i *instance) account(steps []core.Step, busy []time.Duration, waited time.Duration) {
	left := waited
	for n, d := range busy {
		busy[n] = min(d, left)
		left -= busy[n]
	}
	share(busy, waited, func(n int, d time.Duration) {
		k := steps[n].Kernel.(*kernel)
		k.count(func(h *core.Health) { h.Calls++; h.Waited += d; h.Busy += busy[n] })
	})
}
