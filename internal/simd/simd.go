// Package simd holds the float32 arithmetic that everything fast in this module is
// built from: matrix products and the loop that spreads work over the cores.
//
// It is plain Go now. Vector code generated for AVX2 and AVX-512 belongs behind the
// same functions, chosen once by what the CPU has, with the Go loops kept as the form
// that every variant is tested against.
//
// Results do not depend on the number of threads: the terms of each sum are added in
// an order that is fixed by the sizes alone. Functions panic when a slice is shorter
// than its sizes say, because that is a mistake of the programmer and never of input.
package simd

import (
	"runtime"
	"sync"
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
	var wg sync.WaitGroup
	var failed atomic.Pointer[any]
	guarded := func(i int) {
		defer func() {
			if r := recover(); r != nil {
				failed.CompareAndSwap(nil, &r)
			}
		}()
		f(i)
	}
	for i := range workers - 1 {
		wg.Go(func() { guarded(i) })
	}
	guarded(workers - 1)
	wg.Wait()
	if r := failed.Load(); r != nil {
		panic(*r)
	}
}
