package transport

import (
	"context"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

var _ core.Series = (*instance)(nil)

// RunSeries implements core.Series. Calls go to the process together as far as nothing has to be done before or behind
// them: those that add to outputs, whose tensors have to be copied, or that return indices, go alone.
func (i *instance) RunSeries(ctx context.Context, steps []core.Step, took func(n int, d time.Duration)) (int, error) {
	if took == nil {
		took = func(int, time.Duration) {}
	}
	for at := 0; at < len(steps); {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		tell := func(n int, d time.Duration) { took(at+n, d) }
		start := clock.Now()
		busy, failed, err := i.together(ctx, steps[at:])
		n := len(busy)
		if n > 0 && !failed {
			spread(busy, clock.Since(start), tell)
			at += n
			continue
		}
		if !failed {
			err = core.Run(ctx, steps[at].Kernel, steps[at].Call)
		}
		rest := clock.Since(start)
		for n, d := range busy {
			tell(n, d)
			rest -= d
		}
		tell(n, rest)
		at += n
		if err != nil {
			return at, err
		}
		at++
	}
	return len(steps), nil
}

// spread tells what part of a time each of several calls has: what its kernel ran, and as much of the rest as the
// others.
func spread(busy []time.Duration, all time.Duration, tell func(n int, d time.Duration)) {
	rest := all
	for _, d := range busy {
		rest -= d
	}
	for n, d := range busy {
		part := rest / time.Duration(len(busy)-n)
		rest -= part
		tell(n, d+part)
	}
}

// together runs as many of the steps, from the first on, as the process can be asked for at once, if it is there, and
// returns how long the kernels of those that are done ran. If there is one behind them that has failed, an error is
// what is left of that once all was done about it. Nothing done and nothing failed: the first is to go alone.
func (i *instance) together(ctx context.Context, steps []core.Step) (busy []time.Duration, failed bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.proc == nil || i.proc.gone() || slices.ContainsFunc(i.proc.shared, (*shm.Region).Closed) {
		return nil, false, nil
	}
	handles, steps := i.handles(i.fitting(steps))
	if i.proc == nil || len(steps) < 2 {
		return nil, false, nil
	}
	size := 0
	for n, s := range steps {
		if _, err := i.write(i.proc.link.record()[size:], handles[n], s.Call); err != nil {
			steps = steps[:n] // it says why when it is alone
			break
		}
		size += wire.RecordSize(len(s.Call.In) + len(s.Call.Out))
	}
	if len(steps) < 2 {
		return nil, false, nil
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
// indices are looked at before anybody uses them. It has the regions by then, too, as to map one may fail.
func (i *instance) reaches(c *core.Call) bool {
	mapped := func(t core.Tensor, written bool) bool {
		r, _, ok := i.locate(t.Data)
		return ok && slices.Contains(i.proc.shared, r) && (!written || i.output.Has(r))
	}
	unreached := func(t core.Tensor) bool { return len(t.Data) > 0 && !mapped(t, false) }
	unwritten := func(t core.Tensor) bool {
		return t.DType == core.Int32 || len(t.Data) > 0 && !mapped(t, true)
	}
	return !slices.ContainsFunc(c.In, unreached) && !slices.ContainsFunc(c.Out, unwritten)
}

// handles returns those of the steps, as far as the process gives them. If it dies of one, that call goes alone from
// now on, where it is dealt with.
func (i *instance) handles(steps []core.Step) ([]uint32, []core.Step) {
	handles := make([]uint32, len(steps))
	for n, s := range steps {
		k := s.Kernel.(*kernel) // see fitting
		k.plugin.resting = false
		b := binding{k.number, s.Call.Pass, s.Call.Facts}
		if i.alone[b] {
			return handles[:n], steps[:n]
		}
		h, err := i.proc.bind(b)
		if err != nil && i.proc.stopped() {
			k.count(func(h *core.Health) { h.Deaths++; h.LastError = err.Error() })
			i.opts.Logger.Warn("a plugin died when it was asked about a call; it is started again", "plugin",
				k.plugin.manifest.Name, "op", s.Call.Op, "pass", s.Call.Pass, "site", s.Call.Site, "error", err)
			i.alone[b] = true
			i.drop()
		}
		if err != nil {
			return handles[:n], steps[:n]
		}
		handles[n] = h
	}
	return handles, steps
}

// askTogether has the process run the steps, whose records are written. What has to be done about one that fails is
// what is done about a call that was alone.
func (i *instance) askTogether(ctx context.Context, steps []core.Step, size int) (busy []time.Duration, failed bool,
	err error) {
	link := i.proc.link
	running := func() (done int, k *kernel, c *core.Call) { // of which the plugin may say something else each time
		done = min(link.finished(), len(steps)-1)
		return done, steps[done].Kernel.(*kernel), steps[done].Call
	}
	limit := func() time.Duration {
		_, _, c := running()
		return i.opts.limit(c.Work())
	}
	start := clock.Now()
	a, err := i.proc.call(ctx, len(steps), size, limit, func(waited time.Duration) {
		_, k, c := running()
		k.plugin.sayWaiting(c, waited, limit())
	})
	if err == nil {
		err = statusError(a)
	}
	if err == nil {
		return i.account(steps, a, clock.Since(start)), false, nil
	}
	done, k, c := running()
	busy = i.account(steps[:done], a, min(a.Busy, clock.Since(start)))
	if i.proc.stopped() {
		i.drop()
	}
	k.count(func(h *core.Health) { h.Calls++ })
	return busy, true, k.named(ctx, c, k.plugin.settle(ctx, k, c, i.opts.Strict, err))
}

// account counts calls that are done, for which somebody has waited so long, and returns what their kernels took of
// it. The plugin may claim anything.
func (i *instance) account(steps []core.Step, a answer, waited time.Duration) []time.Duration {
	busy := make([]time.Duration, len(steps))
	left := waited
	for n := range busy {
		d := a.Busy / time.Duration(len(steps)) // of a series that has failed, it says no more
		if a.Status == wire.OK && len(a.Text) == 8*len(steps) {
			d = wire.Nanoseconds(wire.Order.Uint64([]byte(a.Text[8*n:])))
		}
		busy[n] = min(d, left)
		left -= busy[n]
	}
	spread(busy, waited, func(n int, d time.Duration) {
		k := steps[n].Kernel.(*kernel)
		k.count(func(h *core.Health) { h.Calls++; h.Waited += d; h.Busy += busy[n] })
	})
	return busy
}
