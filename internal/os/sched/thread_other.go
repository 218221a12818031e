//go:build !linux

package sched

import "runtime"

// CoarseTimers does nothing here; on Linux it lets timers be late.
func CoarseTimers() (restore func() error) { return func() error { return nil } }

// Yield lets another goroutine go first; here no call of the operating system is known
// to do the same for threads.
func Yield() { runtime.Gosched() }

// Coarse reports whether the process was started under CoarseTimers.
func Coarse() bool { return false }
