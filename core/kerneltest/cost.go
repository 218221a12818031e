package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
)

// Footprint is an optional ability of a kernel: to say how many bytes of memory the
// process that it runs in has, shared memory included. It is an error where the
// operating system does not tell.
type Footprint interface {
	Footprint() (int64, error)
}

// Growth is the memory of a kernel's process before and after many calls.
type Growth struct {
	Calls  int   `json:"calls"` // of each pass
	Before int64 `json:"before_bytes"`
	After  int64 `json:"after_bytes"`
}

// PerCall returns by how many bytes the process grew with each call.
func (g Growth) PerCall() float64 {
	return float64(g.After-g.Before) / float64(max(g.Calls, 1))
}

// growthTokens makes every output of a call larger than growthLimit, also one float32
// for each token.
const growthTokens = 160

// growthLimit is by how many bytes a call may let a process grow: what collecting garbage
// now and then leaves behind, over a thousand calls half a MiB.
const growthLimit = 512

// growthTries is how often growth is measured if it is too much, each time but the second
// over twice as many calls: a heap that still finds its size stops growing, a leak does not.
const growthTries = 4

// growth measures the memory of the kernel's process over many calls, and on the way what
// else they leave behind.
func growth(ctx context.Context, k core.Kernel, f core.Facts, o Options, left *kept) Result {
	left.reason = "the memory over as many calls could not be measured"
	r := newResult(specialCase(k, f, fmt.Sprintf("memory over %d calls", o.Calls), growthTokens))
	process, ok := k.(Footprint)
	if !ok {
		left.reason = "the kernel has no process of its own"
		r.skip("%s", left.reason)
		return r
	}
	err := withCalls(ctx, k, specialCase(k, f, r.Kind, r.Tokens), o.Inputs, func(calls []*core.Call) (err error) {
		// What is allocated once is there after a few calls.
		if err := runAll(ctx, k, calls, max(o.Calls/4, 1), nil); err != nil {
			return err
		}
		r.Memory, err = measureGrowth(ctx, k, process, calls, o.Calls, left)
		return err
	})
	switch {
	case errors.Is(err, errNoFootprint):
		r.skip("%v", err)
	case err != nil:
		r.fail(general(err))
	default:
		r.Share = max(r.Memory.PerCall()/growthLimit, 0)
		if r.Memory.PerCall() > growthLimit {
			r.fail(Violation{Text: fmt.Sprintf("the process grows by %.0f bytes with each call, limit %d: from %d to %d bytes over %d calls of each pass",
				r.Memory.PerCall(), growthLimit, r.Memory.Before, r.Memory.After, r.Memory.Calls)})
		}
	}
	return r
}

// errNoFootprint says that the memory of the process is not known.
var errNoFootprint = errors.New("the process's memory is not known")

// measureGrowth returns the smallest growth of some tries, of which the last is the first
// that is within all limits, if there is one.
func measureGrowth(ctx context.Context, k core.Kernel, process Footprint, calls []*core.Call, n int, left *kept) (*Growth, error) {
	var best *Growth
	for try := range growthTries {
		had := left.held(k)
		before, err := process.Footprint()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoFootprint, err)
		}
		n := n << max(try-1, 0)
		if err := runAll(ctx, k, calls, n, nil); err != nil {
			return nil, err
		}
		after, err := process.Footprint()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoFootprint, err)
		}
		if g := (&Growth{n, before, after}); best == nil || g.PerCall() < best.PerCall() {
			best = g
		}
		if has := left.held(k); had != nil && has != nil {
			left.take(*had, *has, n)
		}
		if best.PerCall() <= growthLimit && left.within() {
			break
		}
	}
	return best, nil
}

// Latency is how long calls with one token take, seen by the caller: mostly what it costs
// to reach the kernel. It is a figure to read, and no case fails by it.
type Latency struct {
	Pass   string        `json:"pass"`
	Calls  int           `json:"calls"`
	Median time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
}

func latency(ctx context.Context, k core.Kernel, f core.Facts, o Options) Result {
	r := newResult(specialCase(k, f, "latency of one token", 1))
	err := withCalls(ctx, k, specialCase(k, f, r.Kind, 1), o.Inputs, func(calls []*core.Call) error {
		for _, c := range calls {
			one := []*core.Call{c}
			if err := runAll(ctx, k, one, max(o.Calls/10, 1), nil); err != nil {
				return err
			}
			times := make([]time.Duration, 0, o.Calls)
			if err := runAll(ctx, k, one, o.Calls, &times); err != nil {
				return err
			}
			slices.Sort(times)
			r.Latency = append(r.Latency, Latency{c.Pass.String(), o.Calls, times[len(times)/2], times[(len(times)-1)*99/100]})
		}
		return nil
	})
	if err != nil {
		r.fail(general(err))
	}
	return r
}

// withCalls gives f a call for each pass that the kernel offers, as Calls makes them but
// with memory as in a training run.
func withCalls(ctx context.Context, k core.Kernel, c Case, inputs core.Memory, f func([]*core.Call) error) error {
	out := newMemory(k)
	defer out.free()
	in := out
	if inputs != nil {
		in = &memory{Memory: inputs}
		defer in.free()
	}
	forward, backward, err := calls(ctx, k, c, in, out, true)
	if err != nil {
		return err
	}
	return f([]*core.Call{forward, backward}[:len(passes(k))])
}

// runAll runs each call so many times and appends how long each took, if times is not nil.
func runAll(ctx context.Context, k core.Kernel, calls []*core.Call, n int, times *[]time.Duration) error {
	for range n {
		for _, c := range calls {
			start := time.Now()
			if err := core.Run(ctx, k, c); err != nil {
				return fmt.Errorf("%s: %w", c.Pass, err)
			}
			if times != nil {
				*times = append(*times, time.Since(start))
			}
		}
	}
	return nil
}
