package sched

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// slack is how late timers may be in a process that was started by a thread with coarse
// timers.
const slack = 5 * time.Millisecond

// CoarseTimers lets the timers of the calling thread, and of every thread of the
// processes that it starts, be late by some milliseconds, until restore is called. The
// goroutine must be locked to the thread.
//
// The monitor of a Go program wakes up every 20 us, and less and less often only after 4
// ms without events. A plugin that is called a hundred times in a second thus takes a
// tenth of a core away from its host, even while it has nothing to do.
func CoarseTimers() (restore func()) {
	before, err := timerSlack()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }
}

// started marks, for a moment, the environment of a program that Coarsely has started.
const started = "TUNE_STARTED_COARSELY"

// Coarsely gives the whole program coarse timers, which a program that has threads cannot
// give to the others without privileges: it starts itself again, as the same process, at
// its beginning. A run whose workers and plugins sleep and wake a thousand times in a
// second takes some hundredths less time, which its own monitor would take. Where that is
// refused the program goes on as it is.
func Coarsely() {
	if os.Getenv(started) != "" {
		_ = os.Unsetenv(started)
		return
	}
	program, err := os.Executable()
	if before, e := timerSlack(); err != nil || e != nil || time.Duration(before) >= slack {
		return
	}
	runtime.LockOSThread() // the thread that starts a program hands on its slack
	defer runtime.UnlockOSThread()
	restore := CoarseTimers()
	defer restore()
	if now, err := timerSlack(); err == nil && time.Duration(now) >= slack {
		_ = syscall.Exec(program, os.Args, append(os.Environ(), started+"=1")) // does not return
	}
}

// timerSlack returns the calling thread's, in nanoseconds.
func timerSlack() (int, error) { return unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0) }
