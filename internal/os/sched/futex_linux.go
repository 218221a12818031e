package sched

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2). The private variants would not work between processes.
const (
	futexWait = 0
	futexWake = 1
)

// Wait sleeps while *word is old, at most d; 0 means without limit. It may also return
// early. The word may lie in memory that processes share.
//
// Go's scheduler is not told of a sleep of at most Slice. It would have its monitor take the thread's
// processor away, which for that wakes up every 90 us in the next 5 ms: an eighth of a core, while
// another process computes on all of them. In return the scheduler has one processor less until
// the slice is over, or a signal of its own ends the sleep.
func Wait(word *uint32, old uint32, d time.Duration) {
	if d > 0 && d <= Slice {
		limit := unix.NsecToTimespec(int64(d))
		unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old),
			uintptr(unsafe.Pointer(&limit)), 0, 0)
		return
	}
	var ts *unix.Timespec
	if d > 0 {
		limit := unix.NsecToTimespec(int64(d))
		ts = &limit
	}
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old), uintptr(unsafe.Pointer(ts)), 0,
		0)
}

// Wake wakes one thread that sleeps on the word, if there is any.
func Wake(word *uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0)
}
