package sched

import (
	"math"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2). The private variants would not work between processes.
const (
	futexWait = 0
	futexWake = 1
)

// Woke is why Wait returns.
type Woke int

const (
	Called    Woke = iota // by Wake, or for no reason that is known
	Late                  // the time is over
	Signalled             // by the operating system, for a signal
	Refused               // *word is not old, its memory is gone, or the system refuses
)

// Wait sleeps while *word is old, at most d; 0 means without limit. It may also return
// early. The word may lie in memory that processes share.
//
// Go's scheduler is not told of a sleep with a limit, of which Wait sleeps 5 ms at most then. It would have
// its monitor take the thread's processor away, which for that wakes up every 90 us in the next 5 ms: on a
// virtual machine an eighth of a core, while another process computes on all of them. In return the scheduler
// has one processor less until the sleep is over, or a signal of its own ends it. Where timers are late anyway,
// the monitor is cheap.
func Wait(word *uint32, old uint32, d time.Duration) Woke {
	if hidden(d) {
		limit := unix.NsecToTimespec(int64(min(d, Slice)))
		_, _, e := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old),
			uintptr(unsafe.Pointer(&limit)), 0, 0)
		return woke(e)
	}
	var ts *unix.Timespec
	if d > 0 {
		limit := unix.NsecToTimespec(int64(d))
		ts = &limit
	}
	_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	return woke(e)
}

func woke(e unix.Errno) Woke {
	switch e {
	case 0:
		return Called
	case unix.ETIMEDOUT:
		return Late
	case unix.EINTR:
		return Signalled
	}
	return Refused
}

// hidden reports whether Go's scheduler is not told of a sleep with that limit.
func hidden(d time.Duration) bool { return d > 0 && !Coarse() }

// Coarse reports whether the process was started under CoarseTimers, as plugins are.
var Coarse = sync.OnceValue(func() bool {
	late, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return err == nil && late >= int(slack)
})

// Wake wakes one thread that sleeps on the word, if there is any.
func Wake(word *uint32) { wake(word, 1) }

// WakeAll wakes all of them.
func WakeAll(word *uint32) { wake(word, math.MaxInt32) }

func wake(word *uint32, threads int) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, uintptr(threads), 0, 0, 0)
}
