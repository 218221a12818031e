package simd

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestParallelCoversEachElementOnce(t *testing.T) {
	defer SetThreads(0)
	for _, threads := range []int{1, 2, 5} {
		for _, n := range []int{0, 1, 2, 7, 100} {
			for _, grain := range []int{0, 1, 3, 1000} {
				SetThreads(threads)
				seen := make([]atomic.Int32, n)
				Parallel(n, grain, func(lo, hi int) {
					if hi-lo < min(grain, n) {
						t.Errorf("n %d grain %d: range [%d,%d) is too short", n, grain, lo, hi)
					}
					for i := lo; i < hi; i++ {
						seen[i].Add(1)
					}
				})
				for i := range seen {
					if seen[i].Load() != 1 {
						t.Fatalf("n %d grain %d threads %d: element %d seen %d times", n, grain, threads, i, seen[i].Load())
					}
				}
			}
		}
	}
}

// TestParallelWaitsForNobodysShare has a thread that does not come back from its first range before all others are
// done, most of them of its own share.
func TestParallelWaitsForNobodysShare(t *testing.T) {
	SetThreads(3)
	defer SetThreads(0)
	const n = 48
	var done atomic.Int64
	Parallel(n, 1, func(lo, hi int) {
		if lo > 0 {
			done.Add(int64(hi - lo))
			return
		}
		for start := time.Now(); done.Load() < int64(n-hi); runtime.Gosched() {
			if time.Since(start) > time.Minute {
				t.Errorf("%d of %d elements are done while a thread is late", done.Load(), n-hi)
				return
			}
		}
	})
}

// TestParallelWaitsForWhoIsLate has a thread, another one each time, that comes back long after all others are done and
// the caller has fallen asleep.
func TestParallelWaitsForWhoIsLate(t *testing.T) {
	SetThreads(3)
	defer SetThreads(0)
	for n := range 12 {
		var done atomic.Int64
		Parallel(3, 1, func(lo, _ int) {
			if lo == n%3 {
				time.Sleep(3 * waiting)
			}
			done.Add(1)
		})
		if done.Load() != 3 {
			t.Fatalf("%d of 3 parts are done when Parallel returns", done.Load())
		}
	}
}

// TestParallelRaisesPanicsInTheCaller has one in a worker, one in the caller's own part, and one
// in a loop inside the loop: each keeps the stack of where it happened.
func TestParallelRaisesPanicsInTheCaller(t *testing.T) {
	SetThreads(4)
	defer SetThreads(0)
	for name, part := range map[string]func(lo int){
		"a worker":   func(lo int) { panicAt(lo, 1) },
		"the caller": func(lo int) { panicAt(lo, 3) },
		"a loop inside": func(lo int) {
			Parallel(4, 1, func(inner, _ int) { panicAt(inner, 1) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				p, ok := recover().(*Panic)
				if !ok || p.Cause() != "boom" {
					t.Fatalf("recovered %v, want the panic of the part", p)
				}
				text := p.Error()
				if !strings.HasPrefix(text, "boom\n") || strings.Count(text, "simd.panicAt(") != 1 {
					t.Errorf("the panic does not say where it happened, or says it twice:\n%s", text)
				}
			}()
			Parallel(4, 1, func(lo, hi int) { part(lo) })
		})
	}
}

func panicAt(lo, where int) {
	if lo == where {
		panic("boom")
	}
}

// TestParallelFromSeveralGoroutines lets callers compete for the workers that are awake.
func TestParallelFromSeveralGoroutines(t *testing.T) {
	SetThreads(3)
	defer SetThreads(0)
	var wg sync.WaitGroup
	var sum atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 500 {
				Parallel(3, 1, func(lo, hi int) { sum.Add(int64(hi - lo)) })
			}
		})
	}
	wg.Wait()
	if sum.Load() != 8*500*3 {
		t.Errorf("%d elements, want %d", sum.Load(), 8*500*3)
	}
}

func TestWorkersEndWhenThereIsNothingToDo(t *testing.T) {
	SetThreads(4)
	defer SetThreads(0)
	before := runtime.NumGoroutine()
	Parallel(4, 1, func(lo, hi int) {})
	for range 60_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestThreadsAreSharedAmongThoseWhoUseThem(t *testing.T) {
	SetThreads(5)
	defer SetThreads(0)
	use := func(n, threads int) (release func()) {
		t.Helper()
		release, err := Use(n)
		if err != nil || Threads() != threads {
			t.Fatalf("%d threads, error %v, want %d", Threads(), err, threads)
		}
		return release
	}
	first, second := use(3, 3), use(3, 3)
	if _, err := Use(2); err == nil || Threads() != 3 {
		t.Errorf("%d threads, error %v: want that another number is refused", Threads(), err)
	}
	first()
	first() // releases nothing more
	if Threads() != 3 {
		t.Errorf("%d threads, while somebody uses 3", Threads())
	}
	second()
	if Threads() != 5 {
		t.Errorf("%d threads, want those of before", Threads())
	}
	use(2, 2)()
	cores := resolve(0)
	all := use(0, cores)
	use(cores, cores)() // the same number, said otherwise
	all()
}

// TestMoreThreadsThanProcessors: each needs one of Go's scheduler's, and the default stays what it was.
func TestMoreThreadsThanProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer SetThreads(int(threads.Load()))
	cores, more := resolve(0), runtime.GOMAXPROCS(0)+3
	if SetThreads(more); Threads() != more || runtime.GOMAXPROCS(0) < more {
		t.Errorf("%d threads on %d processors of Go's scheduler, want %d", Threads(), runtime.GOMAXPROCS(0), more)
	}
	if SetThreads(0); Threads() != cores {
		t.Errorf("%d threads by default, want %d", Threads(), cores)
	}
}
