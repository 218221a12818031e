package simd

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// threads is the number of goroutines to use, 0 for one per core.
var threads atomic.Int32

// MaxThreads returns the most threads that SetThreads takes. More than there are cores only wait
// for each other, thousands of them for minutes.
func MaxThreads() int { return max(256, 4*runtime.NumCPU()) }

// unraised is GOMAXPROCS before SetThreads raised it; 0 if it has not.
var unraised atomic.Int32

// SetThreads sets how many goroutines Parallel and the products use; n <= 0 means
// one per core that the Go runtime may use, which is also the default. It raises GOMAXPROCS to as many: a goroutine
// that waits for more to do sleeps unknown to Go's scheduler, and would keep one that has something to do waiting.
func SetThreads(n int) {
	n = min(max(n, 0), MaxThreads())
	if has := runtime.GOMAXPROCS(0); n > has {
		unraised.CompareAndSwap(0, int32(has))
		runtime.GOMAXPROCS(n)
	}
	threads.Store(int32(n))
}

// claim is the number of goroutines that those who called Use have agreed on.
var claim struct {
	sync.Mutex
	holders int
	before  int32 // what SetThreads had set
}

// Use is SetThreads until release is called, for one of several that may compute at the
// same time in this program. They have the threads in common: another number than that of
// those who have not released theirs is an error.
func Use(n int) (release func(), err error) {
	claim.Lock()
	defer claim.Unlock()
	if claim.holders > 0 && resolve(int32(n)) != Threads() {
		return nil, fmt.Errorf("%d threads are asked for, but this program computes with %d already: "+
			"ask for as many, or for them one after the other", resolve(int32(n)), Threads())
	}
	if claim.holders == 0 {
		claim.before = threads.Load()
		SetThreads(n)
	}
	claim.holders++
	return sync.OnceFunc(func() {
		claim.Lock()
		defer claim.Unlock()
		if claim.holders--; claim.holders == 0 {
			threads.Store(claim.before)
		}
	}), nil
}

// Threads returns how many goroutines Parallel and the products use.
func Threads() int { return resolve(threads.Load()) }

func resolve(n int32) int {
	if n > 0 {
		return int(n)
	}
	if n = unraised.Load(); n > 0 {
		return int(n)
	}
	return runtime.GOMAXPROCS(0)
}

// Parallel calls f on ranges [lo, hi) that cover [0, n), each of at least grain elements
// unless n is smaller, and returns when all are done. A result is independent of the number
// of threads as long as f treats each element by itself. A panic in f is raised again in the
// caller, as a *Panic if there are several threads.
//
// Each thread has a share of its own, the same for the same n, so that it finds in its caches
// what it has left there, in a few ranges: who comes late, as a thread that had to be woken,
// leaves some of them to the others.
func Parallel(n, grain int, f func(lo, hi int)) {
	threads := min(Threads(), n/max(grain, 1))
	if threads <= 1 {
		if n > 0 {
			f(0, n)
			active.fence()
		}
		return
	}
	j := jobs.Get().(*job)
	j.share(n, threads, min(mostRanges, n/(threads*max(grain, 1))))
	j.ranges = f
	j.run(threads)
}

// mostRanges is how many ranges a thread's share has at most.
const mostRanges = 8

// share is what a thread does first of a job of ranges.
type share struct {
	lo, hi int
	taken  atomic.Int32 // ranges, by anybody
	_      [64]byte     // shares are written by different threads
}

// share cuts [0, n) for the threads.
func (j *job) share(n, threads, ranges int) {
	for len(j.shares) < threads {
		j.shares = append(j.shares, new(share))
	}
	j.each = ranges
	for i, s := range j.shares[:threads] {
		s.lo, s.hi = i*n/threads, (i+1)*n/threads
		s.taken.Store(0)
	}
}

// take does ranges of a thread's share until there are none that nobody has taken, and then those of others.
func (j *job) take(thread int) {
	for i := range j.workers {
		s := j.shares[(thread+i)%j.workers]
		for r := int(s.taken.Add(1)) - 1; r < j.each; r = int(s.taken.Add(1)) - 1 {
			n := s.hi - s.lo
			j.ranges(s.lo+r*n/j.each, s.lo+(r+1)*n/j.each)
		}
	}
	active.fence()
}

// run calls f(0), ..., f(workers-1) at once, the last one in the caller, and waits.
func run(workers int, f func(worker int)) {
	if workers <= 1 {
		if workers == 1 {
			f(0)
		}
		return
	}
	j := jobs.Get().(*job)
	j.f = f
	j.run(workers)
}

// job is one call of run or Parallel. Jobs are used again, so that a call allocates
// nothing.
type job struct {
	f       func(worker int)
	ranges  func(lo, hi int) // used instead of f when set, for the shares
	shares  []*share         // of the workers
	each    int              // ranges of a share
	workers int

	parts  []task  // part i of whatever the job is
	others []given // where the parts are
	left   atomic.Int64
	failed atomic.Pointer[Panic]
	done   *finish
}

// asleep is added to job.left by a caller that waits for done.
const asleep = 1 << 32

var jobs = sync.Pool{New: func() any { return &job{done: newFinish()} }}

func (j *job) run(workers int) {
	for i := len(j.parts); i < workers; i++ {
		j.parts = append(j.parts, func(free func()) { j.part(i, free) })
	}
	j.left.Store(int64(workers))
	j.workers = workers
	j.others = j.others[:0]
	for _, part := range j.parts[:workers-1] {
		j.others = append(j.others, start(part))
	}
	nobody := func() {}
	j.part(workers-1, nobody)
	// A worker that has not begun by now is behind another process's thread, or still wakes up.
	for i, g := range j.others {
		if g.takeBack() {
			j.part(i, nobody)
		}
	}
	// Nobody changes the job any more once nothing is left and the caller is awake.
	if !spin(waiting, func() bool { return j.left.Load() == 0 }, never, yield) && j.left.Add(asleep) != asleep {
		j.done.wait()
	}
	failed := j.failed.Swap(nil)
	j.f, j.ranges = nil, nil
	jobs.Put(j)
	if failed != nil {
		panic(failed)
	}
}

func (j *job) part(i int, free func()) {
	defer func() {
		if r := recover(); r != nil {
			j.failed.CompareAndSwap(nil, caught(r))
		}
		free()
		if j.left.Add(-1) == asleep {
			j.done.signal()
		}
	}()
	if j.ranges != nil {
		j.take(i)
		return
	}
	j.f(i)
}
