//go:build !linux

package simd

import "sync/atomic"

var (
	rested atomic.Int32          // workers awake without a task, less the tasks on their way
	tasks  = make(chan task, 64) // for them
)

// given would say where a task is; here, only Go's scheduler knows.
type given struct{}

// takeBack is never possible.
func (given) takeBack() bool { return false }

// start calls task in a goroutine: a worker that is awake, or else a new one.
func start(task task) (g given) {
	for n := rested.Load(); n > 0; n = rested.Load() {
		if rested.CompareAndSwap(n, n-1) {
			tasks <- task
			return g
		}
	}
	go work(task)
	return g
}

func work(task task) {
	for task != nil {
		task(func() { rested.Add(1) })
		task = nextTask()
	}
}

// nextTask returns nil if there is none for a while.
func nextTask() (task task) {
	received := func() bool {
		select {
		case task = <-tasks:
			return true
		default:
			return false
		}
	}
	if spin(awake, received, never, yield) {
		return task
	}
	for n := rested.Load(); n > 0; n = rested.Load() {
		if rested.CompareAndSwap(n, n-1) {
			return nil
		}
	}
	return <-tasks // somebody counts on this worker
}

// finish is where a caller sleeps until the last worker is done.
type finish struct{ come chan struct{} }

func newFinish() *finish { return &finish{make(chan struct{})} }

// signal ends one wait.
func (f *finish) signal() { f.come <- struct{}{} }

func (f *finish) wait() { <-f.come }
