package sched

import (
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Yield lets another thread that is ready to run on this core, of any process, go first.
// Whoever waits actively should call it now and then: a plugin and its host share the
// cores, and the thread that one waits for may stand behind the one that waits.
func Yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Thread is a thread of this process that sleeps and is woken.
type Thread struct {
	id  int
	off int // the core that it is kept off; -1 for none
}

// ThisThread locks the goroutine to its thread, which it returns, until Free.
func ThisThread() Thread {
	cores() // before any thread is kept off one
	runtime.LockOSThread()
	return Thread{unix.Gettid(), -1}
}

// cores are those that the process may use.
var cores = sync.OnceValue(func() unix.CPUSet {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		set.Zero()
	}
	return set
})

// fewCores is how many cores may all be busy at the same moment.
const fewCores = 4

// KeepOff keeps the thread, which is about to be woken to work beside the caller, off the
// caller's core. Linux puts a woken thread behind its waker when every other core is busy
// at that moment, if only for microseconds more, and then leaves it there for as long as
// it thinks that the cache is warm, half a millisecond. Where there are many cores one of them
// is idle, and the calls for many threads take longer than that saves: of the 230 us in which 15
// sleeping threads of a machine with 16 cores did work of 100 us they were 70.
func (t *Thread) KeepOff() {
	var core uint32
	set := cores()
	if set.Count() > fewCores {
		return
	}
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); e != 0 || int(core) == t.off {
		return
	}
	set.Clear(int(core))
	if set.Count() > 0 && unix.SchedSetaffinity(t.id, &set) == nil {
		t.off = int(core)
	}
}

// Free lets the thread run on every core again, and other goroutines on the thread. Where the
// system refuses the former, the goroutine stays locked, and the thread ends with it.
func (t *Thread) Free() {
	if t.off >= 0 {
		set := cores()
		if unix.SchedSetaffinity(t.id, &set) != nil {
			return
		}
		t.off = -1
	}
	runtime.UnlockOSThread()
}

// slack is how late timers may be in a process that was started by a thread with coarse
// timers.
const slack = 5 * time.Millisecond

// CoarseTimers lets the timers of the calling thread, and of every thread of the
// processes that it starts, be late by some milliseconds, until restore is called. The
// goroutine must be locked to the thread, and stay so if restore fails: then the thread ends
// with it, and no other goroutine gets timers that are late.
//
// The monitor of a Go program wakes up every 20 us, and less and less often only after 4
// ms without events. A plugin that is called a hundred times in a second thus takes a
// tenth of a core away from its host, even while it has nothing to do.
func CoarseTimers() (restore func() error) {
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) != nil {
		return func() error { return nil }
	}
	return func() error { return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }
}
