//go:build !linux

package sched

import "runtime"

// Yield lets another goroutine go first; here no call of the operating system is known
// to do the same for threads.
func Yield() { runtime.Gosched() }
