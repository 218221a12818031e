package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/os/sched"
	"github.com/seed98097648/tune/internal/os/shm"
	"github.com/seed98097648/tune/internal/wire"
)

// binding is what a handle stands for.
type binding struct {
	kernel uint32
	pass   core.Pass
	facts  core.Facts
}

// bind returns the handle of one pass of a kernel, asking for it the first time.
func (p *process) bind(b binding) (uint32, error) {
	if h, ok := p.bound[b]; ok {
		return h, nil
	}
	var h uint32
	err := p.request("its kernels", func(ctx context.Context) (err error) {
		h, err = p.control.bind(ctx, b)
		return err
	})
	if err == nil {
		p.bound[b] = h
	}
	return h, err
}

// forget has the process unmap the regions that were closed since it mapped them.
func (p *process) forget() error {
	for i := 0; i < len(p.shared); {
		if !p.shared[i].Closed() {
			i++
			continue
		}
		id := p.shared[i].ID()
		if err := p.request("memory", func(ctx context.Context) error { return p.link.forget(ctx, id) }); err != nil {
			return err
		}
		p.shared = slices.Delete(p.shared, i, i+1)
	}
	return nil
}

// share makes sure that the process has mapped the region.
func (p *process) share(r *shm.Region, writable bool) error {
	if slices.Contains(p.shared, r) {
		return nil
	}
	err := p.request("memory", func(ctx context.Context) error { return p.link.share(ctx, r, writable) })
	if err == nil {
		p.shared = append(p.shared, r)
	}
	return err
}

// explain turns the error of a request to the process into its death, or into what
// the plugin said.
func (p *process) explain(ctx context.Context, err error) error {
	s, isStatus := status.FromError(err)
	// The other end sees the deadline too, and may say so before this clock does.
	late := s.Code() == codes.DeadlineExceeded || s.Code() == codes.Canceled
	switch {
	case ctx.Err() != nil || late:
		return p.died(fmt.Sprintf("it did not answer within %v", p.opts.StartTimeout))
	case errors.Is(err, errUnasked):
		return p.died(err.Error())
	case p.gone() || s.Code() == codes.Unavailable || errors.Is(err, net.ErrClosed):
		return p.ended("its process ended")
	case isStatus:
		return errors.New(printable(s.Message()))
	}
	return err
}

// Waiting for an answer is cut into slices, between which the host looks whether the
// process lives, the caller still waits and the deadline is not over.
const waitSlice = sched.Slice

// cancelGrace is what a call may still take after its caller gave up, before the
// process is stopped: until then it may be writing outputs.
const cancelGrace = 200 * time.Millisecond

// call runs the first n bytes of the link's record: a call, or a series of so many. An error says that there is no
// answer: the process died, was stopped for exceeding the deadline, or ctx is done. Slow
// is told now and then how long an answer has been waited for, and limit, which is asked only when
// Options.CallTimeout is over, says how long this call may take. Both are about the call of a
// series that runs.
func (p *process) call(ctx context.Context, calls, n int, limit func() time.Duration,
	slow func(waited time.Duration)) (answer, error) {
	kind := wire.Call
	if calls > 1 {
		kind = wire.Series
	}
	p.link.start(kind, n)
	start, next := time.Now(), slowAfter
	most := p.opts.CallTimeout
	deadline := start.Add(most)
	done := 0
	given := false // the caller gave up
	for {
		gone := p.gone() // asked before the wait: an answer given before death counts
		a, ok := p.link.wait(waitSlice)
		switch {
		case ok && a.broken == nil && ctx.Err() != nil:
			return answer{}, ctx.Err()
		case ok && a.broken == nil:
			return a, nil
		case ok && !gone && status.Code(a.broken) != codes.Unavailable && !errors.Is(a.broken, net.ErrClosed):
			return answer{}, p.died("a call could not be delivered: " + a.broken.Error())
		case ok || gone:
			return answer{}, p.ended("its process ended during a call")
		}
		now := time.Now()
		if !given && ctx.Err() != nil {
			given = true
			p.link.stop()
			if d := now.Add(p.opts.cancelGrace); d.Before(deadline) {
				deadline = d
			}
		}
		if d := min(p.link.finished(), calls); kind == wire.Series && !given && d > done {
			done = d
			start, next, most = now, slowAfter, p.opts.CallTimeout
			deadline = start.Add(most)
		}
		if waited := now.Sub(start); waited >= next {
			slow(waited)
			next *= 2
		}
		if now.Before(deadline) {
			continue
		}
		if given {
			p.end()
			return answer{}, ctx.Err()
		}
		if longer := limit(); longer > most { // once: it says the same each time
			most, deadline = longer, start.Add(longer)
			continue
		}
		return answer{}, p.died(fmt.Sprintf("a call took longer than %v", most))
	}
}
