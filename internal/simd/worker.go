package simd

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/internal/sched"
)

// To wake a goroutine on a core that sleeps takes up to a tenth of a millisecond on
// virtual machines, as long as many an operation. Operations follow each other closely,
// so whoever has finished stays awake for a moment: a worker for its next task, and the
// caller for the last worker. Then the worker ends, and the caller sleeps.
const awake = 50 * time.Microsecond

var (
	waiting atomic.Int32            // workers awake without a task, less the tasks on their way
	tasks   = make(chan func(), 64) // for them
)

// start calls task in a goroutine: a worker that is awake, or else a new one.
func start(task func()) {
	for n := waiting.Load(); n > 0; n = waiting.Load() {
		if waiting.CompareAndSwap(n, n-1) {
			tasks <- task
			return
		}
	}
	go work(task)
}

func work(task func()) {
	for task != nil {
		task()
		task = nextTask()
	}
}

// nextTask returns nil if there is none for a while.
func nextTask() (task func()) {
	waiting.Add(1)
	received := func() bool {
		select {
		case task = <-tasks:
			return true
		default:
			return false
		}
	}
	if spin(received) {
		return task
	}
	for n := waiting.Load(); n > 0; n = waiting.Load() {
		if waiting.CompareAndSwap(n, n-1) {
			return nil
		}
	}
	return <-tasks // somebody counts on this worker
}

// spin waits for ready, awake, and reports whether it came in time.
func spin(ready func() bool) bool {
	for start := time.Now(); time.Since(start) < awake; {
		for range 16 {
			if ready() {
				return true
			}
		}
		runtime.Gosched() // whatever else there is to do goes first,
		sched.Yield()     // in other processes too
	}
	return ready()
}
