//go:build !race

package simd

import "testing"

// TestCallsAllocateNothing leaves room for new goroutines. The race detector empties pools at
// random, so that it has no part in this.
func TestCallsAllocateNothing(t *testing.T) {
	defer SetThreads(0)
	const n = 64
	x := make([]float32, n*n)
	y := make([]float32, n*n)
	part := func(lo, hi int) { clear(y[lo:hi]) }
	for _, threads := range []int{1, 3} {
		SetThreads(threads)
		for name, call := range map[string]func(){
			"Parallel": func() { Parallel(len(y), 1, part) },
			"Multiply": func() { gemmNN(n, n, n, x, n, x, n, y, n, false) },
		} {
			if got := testing.AllocsPerRun(50, call); got >= float64(max(threads, 2)) {
				t.Errorf("%s allocates %g times with %d threads", name, got, threads)
			}
		}
	}
}
