package sched

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Turn is what two processes that take turns on the same cores have: a word of shared memory for the idle threads of
// each. Both are 0, and nobody changes them: threads sleep there, and are woken.
type Turn struct{ Theirs, Ours *uint32 }

// turn is with the process whose turn it is; nil for none.
var turn atomic.Pointer[Turn]

// RestFor is Rest for the other process of a turn: who gives up is to call HandOver. So each core goes from a thread
// of one process to one of the other, and back, in a few microseconds: to wake a thread on another core takes 20 to 50
// on a virtual machine. For nil, it is Rest alone.
func RestFor(t *Turn) {
	turn.Store(t)
	Rest()
}

// HandOver wakes an idle thread of the process whose turn it is, and returns the word at which the caller's thread is
// woken when that hands the core back; nil where it is nobody's turn.
func HandOver() (back *uint32) {
	t := turn.Load()
	if t == nil {
		return nil
	}
	Wake(t.Theirs)
	return t.Ours
}

// End takes no more turns, whose memory may go then. Who is about to sleep there finds it gone, which Wait survives,
// or sleeps until its time is over.
func (t *Turn) End() {
	turn.CompareAndSwap(t, nil)
	WakeAll(t.Ours)
}

// PutHere has a thread of another process run on the caller's core when it is woken, and reports whether it will. That
// thread is to call Anywhere then. Where there are many cores, threads that wake up find one that is idle.
func PutHere(thread int) bool {
	var core uint32
	set := cores()
	if set.Count() > fewCores {
		return false
	}
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); e != 0 {
		return false
	}
	set.Zero()
	set.Set(int(core))
	return unix.SchedSetaffinity(thread, &set) == nil
}

// Anywhere lets the thread run on every core again, and reports whether it may.
func (t *Thread) Anywhere() bool {
	set := cores()
	return unix.SchedSetaffinity(t.id, &set) == nil
}

// Number is the thread's, to the operating system.
func (t *Thread) Number() int { return t.id }
