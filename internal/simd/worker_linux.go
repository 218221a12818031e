package simd

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/internal/os/sched"
)

// lifetime is how long a worker without a task lives.
const lifetime = 200 * time.Millisecond

// patience is how long a worker sleeps for a task before it ends, 0 for without limit. In a plugin none ends: to start
// another one would take 5 ms, as late as timers are there, because Go's scheduler sleeps for a moment before it takes a
// new goroutine away from the processor that has made it (runtime.runqgrab).
func patience() time.Duration {
	if sched.Coarse() {
		return 0
	}
	return lifetime
}

// worker is a goroutine with a thread of its own: to wake the thread itself, on another
// core than the caller's, is much faster than to have Go's scheduler find one.
type worker struct {
	thread sched.Thread
	task   task
	given  uint32 // the number of the task that there is, 0 for none
	last   uint32 // the number of the last one
	asleep uint32
	bed    atomic.Pointer[uint32] // where it sleeps

	gaveWay time.Time
}

// idle are the workers without a task; who has just become idle comes last.
var idle struct {
	sync.Mutex
	workers []*worker
}

// given is a task that a worker has been given, and may not have begun.
type given struct {
	worker *worker
	number uint32
}

// takeBack reports whether the worker had not begun the task, and will not. It then is idle.
func (g given) takeBack() bool {
	if g.worker == nil || !atomic.CompareAndSwapUint32(&g.worker.given, g.number, 0) {
		return false
	}
	g.worker.free()
	return true
}

// start has a worker call task: one that is awake if possible, or one that sleeps, or
// else a new one. The caller is to take it back when it has nothing else to do.
func start(task task) given {
	idle.Lock()
	n := len(idle.workers)
	if n == 0 {
		idle.Unlock()
		go work(task)
		return given{}
	}
	w := idle.workers[n-1]
	idle.workers = idle.workers[:n-1]
	idle.Unlock()

	w.task = task
	w.thread.KeepOff() // also if it is awake: the caller may be on its core by now, and it behind the caller
	w.last = max(w.last+1, 1)
	g := given{w, w.last}
	atomic.StoreUint32(&w.given, g.number) // from here on the worker is its own master
	if atomic.LoadUint32(&w.asleep) != 0 {
		sched.WakeAll(w.bed.Load()) // others may sleep there, too: they find out that the task is not theirs
	}
	return g
}

func work(task task) {
	w := &worker{thread: sched.ThisThread()}
	defer w.thread.Free()
	for task != nil {
		task(w.free)
		task = w.next()
	}
}

// free makes w the one that is idle last. Its task calls that before it says that it is done: who
// waits for that may have another task at once, and would start another worker, a thread more than
// there are cores.
func (w *worker) free() {
	idle.Lock()
	idle.workers = append(idle.workers, w)
	idle.Unlock()
}

// next waits for a task that nobody takes back, first awake, then asleep; it returns nil if none comes. When another
// process comes next, it hands its core over to that, and is awake again when it is handed back.
func (w *worker) next() task {
	there := func() bool { return atomic.LoadUint32(&w.given) != 0 }
	for {
		rests := sched.Rests()
		rested := func() bool { return sched.Rests() != rests }
		if !spin(awake, there, rested, sched.Yield) {
			var back *uint32
			if rested() {
				back = sched.HandOver()
			}
			if w.sleep(there, back) {
				return nil
			}
		}
		if n := atomic.LoadUint32(&w.given); n != 0 && atomic.CompareAndSwapUint32(&w.given, n, 0) {
			return w.task
		}
	}
}

// sleep sleeps until there is a task or the core, if it was handed over, is handed back at that word. It reports
// whether the worker has left, as neither came. Who falls asleep at that word in the moment in which it is given a task
// sleeps on, for a slice, or in a plugin until there is another one: the caller takes the task back.
func (w *worker) sleep(there func() bool, back *uint32) (left bool) {
	w.giveWay()
	bed := &w.given
	if back != nil {
		bed = back
	}
	w.bed.Store(bed)
	atomic.StoreUint32(&w.asleep, 1)
	defer atomic.StoreUint32(&w.asleep, 0)
	limit := patience()
	for start := time.Now(); !there(); {
		switch woke := sched.Wait(bed, 0, limit); {
		case bed == &w.given:
		case woke == sched.Called:
			return false
		case woke == sched.Refused: // whatever the other process did to its memory, this one sleeps
			bed = &w.given
			w.bed.Store(bed)
		}
		if limit > 0 && !there() && time.Since(start) >= limit && w.leave() {
			return true
		}
	}
	return false
}

// giveWay lets other goroutines go first, which would wait for a processor until a sleep that Go's scheduler is not
// told of is over, as long as a slice: they need not have it more often than that.
func (w *worker) giveWay() {
	if !sched.Coarse() && time.Since(w.gaveWay) > sched.Slice {
		w.gaveWay = time.Now()
		runtime.Gosched()
	}
}

// leave takes the worker off the idle ones, unless a task is on its way to it.
func (w *worker) leave() bool {
	idle.Lock()
	defer idle.Unlock()
	i := slices.Index(idle.workers, w)
	if i < 0 {
		return false
	}
	idle.workers = slices.Delete(idle.workers, i, i+1)
	return true
}

// finish is where a caller sleeps until the last worker is done. It does so on its own thread: in a plugin, Go's
// scheduler would have it run again 5 ms late, as it would a new goroutine.
type finish struct{ come uint32 }

func newFinish() *finish { return new(finish) }

// signal ends one wait. It may wake whoever waits for the next time, who sleeps on.
func (f *finish) signal() {
	atomic.StoreUint32(&f.come, 1)
	sched.Wake(&f.come)
}

func (f *finish) wait() {
	for !atomic.CompareAndSwapUint32(&f.come, 1, 0) {
		sched.Wait(&f.come, 0, 0)
	}
}
