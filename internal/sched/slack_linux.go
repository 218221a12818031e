package sched

import (
	"time"

	"golang.org/x/sys/unix"
)

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
