package kerneltest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/seed98097648/tune/core"
	"github.com/seed98097648/tune/internal/clock"
)

const (
	// restTime is how long a kernel is left alone, and then watched.
	restTime = 250 * time.Millisecond
	// restLimit is the share of a processor that a process without a call may take: what
	// collects garbage, or polls now and then, needs far less.
	restLimit = 0.5
	// bystanderSize is that of memory of the kernel that belongs to no call, in bytes.
	bystanderSize = 1 << 16
)

// atRest looks at what happens after calls: the outputs of a call, those of an earlier one
// and memory between them must stay as they are, and the process must take no processor.
func (t *trial) atRest(ctx context.Context) error {
	var bystanders [][]byte
	var data []prepared
	var places []place
	for seed := range 2 {
		b, err := t.memory.Alloc(bystanderSize)
		if err != nil {
			return err
		}
		fill(b, guardByte)
		bystanders = append(bystanders, b)
		c := t.of
		c.Seed = uint64(seed)
		p := t.prepare(ctx, c)
		at, err := p.place(t.kernel, t.memory)
		if err != nil {
			return err
		}
		data, places = append(data, p), append(places, at)
	}
	var given []outputs
	for i, p := range data {
		given = append(given, p.runAt(ctx, places[i], nil, poisons[i], t.Result))
	}
	if t.Status == Failed {
		return nil
	}
	time.Sleep(restTime)
	for i, at := range places {
		for _, pass := range passes(t.kernel) {
			for j, a := range tensors(at.calls[pass].Sig.Out) {
				if err := sameBits(given[i][pass.String()+a.Name], at.calls[pass].Out[j]); err != nil {
					t.fail(violation(pass, a.Name, fmt.Errorf("it changed after the call had answered: %w", err)))
				}
			}
		}
	}
	for _, b := range bystanders {
		if n := bytes.Count(b, []byte{guardByte}); n != len(b) {
			t.fail(Violation{Text: fmt.Sprintf("%d bytes of the kernel's memory were changed that "+
				"belong to no output of any call", len(b)-n)})
		}
	}
	if share, ok := busyAtRest(t.kernel); ok && share > restLimit {
		t.fail(Violation{Text: fmt.Sprintf("the process keeps %.0f%% of a processor busy while nobody calls it", 100*share)})
	}
	return nil
}

// busyAtRest returns the share of a processor that a process takes while nobody calls it,
// the least of some tries.
func busyAtRest(k core.Kernel) (share float64, ok bool) {
	p, ok := k.(Process)
	if !ok {
		return 0, false
	}
	for range growthTries {
		used, took, err := processor(p, func() error { time.Sleep(restTime); return nil })
		if err != nil {
			return 0, false
		}
		if share = used.Seconds() / took.Seconds(); share <= restLimit {
			break
		}
	}
	return share, true
}

// processor returns for how long the threads of a process run, or would if there were
// processors enough, while f does, and how long that takes.
func processor(p Process, f func() error) (used, took time.Duration, err error) {
	before, err := p.Holdings()
	if err != nil {
		return 0, 0, err
	}
	start := clock.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = clock.Since(start)
	after, err := p.Holdings()
	return after.Processor - before.Processor, took, err
}

const (
	// threadsTime is how long calls are watched for the threads that they use.
	threadsTime = 300 * time.Millisecond
	// threadsLimit is how many processors a process with one thread may use on average:
	// the runtime of its language may have a little to do besides.
	threadsLimit = 1.5
)

// keepsToOneThread finds a kernel that computes with more threads than TUNE_THREADS says,
// where one is allowed.
func (t *trial) keepsToOneThread(ctx context.Context) error {
	single := t.options.Single
	p, ok := single.(Process)
	if !ok {
		return errNoSingle
	}
	if runtime.NumCPU() < 2 {
		return skipf("this machine has one processor")
	}
	return t.withCalls(ctx, single, func(calls []*core.Call) error {
		if err := runAll(ctx, single, calls, 1); err != nil { // what is made once
			return err
		}
		least := math.Inf(1) // the clock of a busy machine may be wrong once
		for try := 0; try < 3 && least > threadsLimit; try++ {
			used, took, err := processor(p, func() error {
				for start := clock.Now(); clock.Since(start) < threadsTime; {
					if err := runAll(ctx, single, calls, 1); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return skipf("%v", err)
			}
			least = min(least, used.Seconds()/took.Seconds())
		}
		if least > threadsLimit {
			t.fail(Violation{Text: fmt.Sprintf("with TUNE_THREADS=1 the process keeps %.1f processors busy, limit %.1f",
				least, threadsLimit)})
		}
		return nil
	})
}
