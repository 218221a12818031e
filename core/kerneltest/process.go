package kerneltest

import (
	"fmt"
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
	Descriptors int
	Threads     int
	Children    int           // processes that it has started, at any remove, and that have not ended
	Files       int           // in the folder for temporary files, if that is its own
	Mapped      int64         // bytes of address space
	Printed     int64         // bytes that it has printed so far
	Processor   time.Duration // that its threads have run so far, and half of what they waited for one that others had
}

// holding is something of which a process may keep more with each call.
type holding struct {
	of    func(Holdings) float64
	limit float64 // of each call; what comes with some of a thousand calls may be chance
	text  string  // what is wrong beyond it, with the number of each call
}

func holdings() []holding {
	return []holding{
		{func(h Holdings) float64 { return float64(h.Descriptors) }, 0.004, "opens %.3g descriptors with each call and does not close them"},
		{func(h Holdings) float64 { return float64(h.Threads) }, 0.004, "starts %.3g threads with each call that do not end"},
		{func(h Holdings) float64 { return float64(h.Children) }, 0.004, "starts %.3g processes with each call that do not end, or that nobody waits for"},
		{func(h Holdings) float64 { return float64(h.Files) }, 0.004, "leaves %.3g files with each call in the folder for temporary files"},
		{func(h Holdings) float64 { return float64(h.Mapped) }, 2048, "maps %.0f bytes of address space with each call and does not unmap them"},
		{func(h Holdings) float64 { return float64(h.Printed) }, 1, "prints %.0f bytes with each call, which costs time and shows nowhere"},
	}
}

// kept is by how much a process grew with each call, for each of holdings: the least of
// some tries. Reason is why it is not known.
type kept struct {
	perCall []float64
	reason  string
}

// take adds a try: what the process had before and after so many calls of each pass.
func (k *kept) take(before, after Holdings, calls int) {
	first := k.perCall == nil
	for i, h := range holdings() {
		grown := (h.of(after) - h.of(before)) / float64(max(calls, 1))
		if first {
			k.perCall = append(k.perCall, grown)
		}
		k.perCall[i] = min(k.perCall[i], grown)
	}
}

// within reports whether nothing is beyond its limit.
func (k *kept) within() bool {
	for i, h := range holdings() {
		if k.perCall != nil && k.perCall[i] > h.limit {
			return false
		}
	}
	return true
}

// printing is how long it may take until what a plugin has printed arrives.
const printing = 100 * time.Millisecond

// held asks for what the process has; nil without an error if nobody can tell.
func (k *kept) held(process core.Kernel) *Holdings {
	p, ok := process.(Process)
	if !ok {
		k.reason = "the kernel has no process of its own"
		return nil
	}
	time.Sleep(printing)
	h, err := p.Holdings()
	if err != nil {
		k.reason = err.Error()
		return nil
	}
	return &h
}

// leftBehind says what the calls of growth have left in the process, and around it.
func leftBehind(k core.Kernel, f core.Facts, left *kept) Result {
	r := newResult(specialCase(k, f, "left behind by calls", growthTokens))
	if left.perCall == nil {
		r.skip("%s", left.reason)
		return r
	}
	for i, h := range holdings() {
		r.Share = max(r.Share, left.perCall[i]/h.limit)
		if left.perCall[i] > h.limit {
			r.fail(Violation{Text: fmt.Sprintf("the process "+h.text, left.perCall[i])})
		}
	}
	return r
}
