package kerneltest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed98097648/tune/core"
)

// Process is an optional ability of a kernel: to say what the process that it runs in has.
// It is an error where the operating system does not tell.
type Process interface {
	Holdings() (Holdings, error)
}

// Holdings is what a process has at some moment.
type Holdings struct {
	Memory      int64 // bytes in memory or in swap, shared with others or not
	Descriptors int
	Threads     int
	Children    int   // processes that it has started, at any remove, and that have not ended
	Files       int   // in the folder for temporary files, if that is its own
	Mapped      int64 // bytes of address space
	Printed     int64 // bytes that it has printed so far
	// Processor is for how long its threads have run so far, and half of how long they waited
	// for a processor that others had.
	Processor time.Duration
}

// holding is something of which a process may keep more with each call.
type holding struct {
	of    float64
	limit float64 // of each call; what comes with some of a thousand calls may be chance
	text  string  // what is wrong beyond it, with the number of each call
}

func (h Holdings) list() []holding {
	return []holding{
		{float64(h.Descriptors), 0.004, "opens %.3g descriptors with each call and does not close them"},
		{float64(h.Threads), 0.004, "starts %.3g threads with each call that do not end"},
		{float64(h.Children), 0.004, "starts %.3g processes with each call that do not end, or that nobody waits for"},
		{float64(h.Files), 0.004, "leaves %.3g files with each call in the folder for temporary files"},
		{float64(h.Mapped), 2048, "maps %.0f bytes of address space with each call and does not unmap them"},
		{float64(h.Printed), 1, "prints %.0f bytes with each call, which costs time and shows nowhere"},
	}
}

// kept is by how much a process grew with each call, for each of its holdings: the least of
// some tries. Reason is why it is not known.
type kept struct {
	perCall []holding
	reason  string
}

// take adds a try: what the process had before and after so many calls of each pass.
func (k *kept) take(before, after Holdings, calls int) {
	was, is := before.list(), after.list()
	for i := range is {
		is[i].of = (is[i].of - was[i].of) / float64(max(calls, 1))
		if k.perCall != nil {
			is[i].of = min(is[i].of, k.perCall[i].of)
		}
	}
	k.perCall = is
}

// within reports whether nothing is beyond its limit.
func (k *kept) within() bool {
	return !slices.ContainsFunc(k.perCall, func(h holding) bool { return h.of > h.limit })
}

// printing is how long it may take until what a plugin has printed arrives.
const printing = 100 * time.Millisecond

// held asks for what the process has, once that is settled.
func held(p Process) (Holdings, error) {
	time.Sleep(printing)
	h, err := p.Holdings()
	if err != nil {
		return h, skipf("it is not known what the process has: %v", err)
	}
	return h, nil
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

// growthTries is how often growth is measured at most, each time but the second
// over twice as many calls: a heap that still finds its size stops growing, a leak does not, and one
// that begins where garbage was before shows later.
const growthTries = 4

// growthNothing is what an allocator leaves now and then, however long one measures.
const growthNothing = growthLimit / 4

// growth measures the memory of the kernel's process over many calls, and on the way what
// else they leave behind.
func (t *trial) growth(ctx context.Context, left *kept) error {
	err := t.withCalls(ctx, t.kernel, func(calls []*core.Call) error { return t.measureGrowth(ctx, calls, left) })
	if err != nil {
		left.reason = err.Error()
		return err
	}
	t.Share = max(t.Memory.PerCall()/growthLimit, 0)
	if t.Memory.PerCall() > growthLimit {
		t.fail(Violation{Text: fmt.Sprintf("the process grows by %.0f bytes with each call, limit %d: "+
			"from %d to %d bytes over %d calls of each pass",
			t.Memory.PerCall(), growthLimit, t.Memory.Before, t.Memory.After, t.Memory.Calls)})
	}
	return nil
}

// measureGrowth takes the smallest growth of some tries, as many as it needs until that is within the limit; the first
// counts only if it is nothing.
func (t *trial) measureGrowth(ctx context.Context, calls []*core.Call, left *kept) error {
	process, ok := t.kernel.(Process)
	if !ok {
		return skipf("the kernel has no process of its own")
	}
	// What is allocated once is there after a few calls.
	if err := runAll(ctx, t.kernel, calls, max(t.options.Calls/2, 1)); err != nil {
		return err
	}
	for try := range growthTries {
		had, err := held(process)
		if err != nil {
			return err
		}
		n := t.options.Calls << max(try-1, 0)
		if err := runAll(ctx, t.kernel, calls, n); err != nil {
			return err
		}
		has, err := held(process)
		if err != nil {
			return err
		}
		if g := (&Growth{n, had.Memory, has.Memory}); try <= 1 || g.PerCall() < t.Memory.PerCall() {
			t.Memory = g
		}
		left.take(had, has, n)
		enough := float64(growthNothing)
		if try > 0 { // what comes is taken only if it is less
			enough = growthLimit
		}
		if t.Memory.PerCall() <= enough && left.within() {
			break
		}
	}
	return nil
}

// leftBehind says what the calls of growth have left in the process, and around it. Where growth is left out, it makes
// them.
func (t *trial) leftBehind(ctx context.Context, left *kept) error {
	if left.perCall == nil && left.reason == "" {
		growth := &trial{&Result{}, t.of, t.kernel, t.options, t.memory}
		if err := growth.growth(ctx, left); err != nil {
			return err
		}
	}
	if left.perCall == nil {
		return skip(left.reason)
	}
	for _, h := range left.perCall {
		t.Share = max(t.Share, h.of/h.limit)
		if h.of > h.limit {
			t.fail(Violation{Text: fmt.Sprintf("the process "+h.text, h.of)})
		}
	}
	return nil
}
