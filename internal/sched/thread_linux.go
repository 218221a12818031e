package sched

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Thread is a thread of this process that sleeps and is woken.
type Thread struct {
	id  int
	off int // the core that it is kept off; -1 for none
}

// ThisThread locks the goroutine to its thread, which it returns, until Free.
func ThisThread() Thread {
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

// KeepOff keeps the thread, which is about to be woken to work beside the caller, off the
// caller's core. Linux puts a woken thread behind its waker when every other core is busy
// at that moment, if only for microseconds more, and then leaves it there for as long as
// it thinks that the cache is warm, half a millisecond.
func (t *Thread) KeepOff() {
	var core uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); e != 0 || int(core) == t.off {
		return
	}
	set := cores()
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
