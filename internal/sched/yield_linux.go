package sched

import "syscall"

// Yield lets another thread that is ready to run on this core, of any process, go first.
// Whoever waits actively should call it now and then: a plugin and its host share the
// cores, and the thread that one waits for may stand behind the one that waits.
func Yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
