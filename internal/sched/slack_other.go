//go:build !linux

package sched

// CoarseTimers does nothing here; on Linux it lets timers be late.
func CoarseTimers() (restore func() error) { return func() error { return nil } }
