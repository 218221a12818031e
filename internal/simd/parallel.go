package simd

import (
	"runtime"
	"sync/atomic"
)

// threads is the number of goroutines to use, 0 for one per core.
var threads atomic.Int32

// SetThreads sets how many goroutines Parallel and the products use; n <= 0 means
// one per core that the Go runtime may use, which is also the default.
func SetThreads(n int) { threads.Store(int32(max(n, 0))) }

// Threads returns how many goroutines Parallel and the products use.
func Threads() int {
	if n := threads.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Parallel calls f on consecutive ranges [lo, hi) that cover [0, n), at most one range
// per thread, each of at least grain elements unless n is smaller, and returns when all
// are done. A result is independent of the number of threads as long as f treats each
// element by itself. A panic in f is raised again in the caller.
func Parallel(n, grain int, f func(lo, hi int)) {
	chunks := min(Threads(), n/max(grain, 1))
	if chunks <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	run(chunks, func(i int) { f(i*n/chunks, (i+1)*n/chunks) })
}

// run calls f(0), ..., f(workers-1) at once, the last one in the caller, and waits.
func run(workers int, f func(worker int)) {
	if workers <= 1 {
		if workers == 1 {
			f(0)
		}
		return
	}
	var left atomic.Int32
	var failed atomic.Pointer[any]
	done := make(chan struct{})
	guarded := func(i int) {
		defer func() {
			if r := recover(); r != nil {
				failed.CompareAndSwap(nil, &r)
			}
			if left.Add(-1) == 0 {
				close(done)
			}
		}()
		f(i)
	}
	left.Store(int32(workers))
	for i := range workers - 1 {
		start(func() { guarded(i) })
	}
	guarded(workers - 1)
	if !spin(func() bool { return left.Load() == 0 }) {
		<-done
	}
	if r := failed.Load(); r != nil {
		panic(*r)
	}
}
