package simd

import (
	"runtime"
	"time"

	"github.com/seed98097648/tune/internal/os/sched"
)

// To wake a thread on a core that sleeps takes up to a tenth of a millisecond on virtual
// machines, as long as many an operation. Operations follow each other closely, so whoever
// has finished stays awake for a moment: a worker for its next task, unless it is to rest
// because another process comes next, and the caller for the last worker.
const (
	awake   = 50 * time.Microsecond
	waiting = time.Millisecond // the caller's
)

// task is work for a goroutine. It calls free when it needs it no longer, before anybody can know that the task is
// done.
type task func(free func())

// spin waits for ready, awake, for so long or until enough, and reports whether it came
// in time. Now and then it calls yield.
func spin(limit time.Duration, ready, enough func() bool, yield func()) bool {
	for start := time.Now(); time.Since(start) < limit && !enough(); {
		for range 16 {
			if ready() {
				return true
			}
		}
		yield()
	}
	return ready()
}

// yield lets whatever else there is to do go first, in other processes too. In a plugin, whose callers are locked to their
// threads, other goroutines do not go first: for that, Go's scheduler would put the thread to sleep, and have another
// one wake it.
func yield() {
	if !sched.Coarse() {
		runtime.Gosched()
	}
	sched.Yield()
}

func never() bool { return false }
