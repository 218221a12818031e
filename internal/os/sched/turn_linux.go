package sched

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Processes that take turns on the same cores have a word of shared memory for the idle threads of each. It is 0, and
// nobody changes it: threads sleep there, and are woken.

// listens are the words at which threads of this process are woken when it is its turn. The slice is never changed.
var listens struct {
	sync.Mutex
	at atomic.Pointer[[]*uint32]
}

// Listen has Sleep end when another process hands over at the word, until stop is called.
func Listen(word *uint32) (stop func()) {
	change := func(to func(words []*uint32) []*uint32) {
		listens.Lock()
		defer listens.Unlock()
		var words []*uint32
		if at := listens.at.Load(); at != nil {
			words = slices.Clone(*at)
		}
		words = to(words)
		listens.at.Store(&words)
	}
	change(func(words []*uint32) []*uint32 { return append(words, word) })
	return func() {
		change(func(words []*uint32) []*uint32 {
			return slices.DeleteFunc(words, func(w *uint32) bool { return w == word })
		})
	}
}

// turn is where idle threads of the process sleep whose turn it is.
var turn atomic.Pointer[uint32]

// RestFor is Rest for the process whose idle threads sleep at the word: who gives up is to call HandOver, and then
// Sleep. So each core goes from a thread of one process to one of the other, and back, in a few microseconds: to
// wake a thread on another core takes 20 to 50 on a virtual machine. For nil, it is Rest alone.
func RestFor(word *uint32) {
	turn.Store(word)
	Rest()
}

// HandOver wakes an idle thread of the process whose turn it is, and reports whether there is such a process.
func HandOver() bool {
	word := turn.Load()
	if word != nil {
		Wake(word)
	}
	return word != nil
}

// Sleep is Wait, and also ends when another process hands over, which it reports. It may sleep less long. The word is
// not on a stack. Unlike by Wait, Go's scheduler is told of every sleep: no signal of its own would end it, as
// futex_waitv begins again after signals, and whoever stops the world, as a collection of garbage does, would wait.
func Sleep(word *uint32, old uint32, d time.Duration) (handed bool) {
	if at := listens.at.Load(); at != nil && len(*at) > 0 && !without.Load() {
		switch n, err := waitAny(word, old, *at, d); err {
		case 0:
			return n > 0
		case unix.ETIMEDOUT, unix.EINTR:
			return false
		case unix.ENOSYS, unix.EPERM:
			without.Store(true)
		}
		// Also if a word is not as expected: Wait sees if it is the first, and what other processes do to theirs, or to
		// the memory that it is in, must not keep this one from its sleep.
	}
	Wait(word, old, d)
	return false
}

// without is set where the system has no futex_waitv, which came with Linux 5.16, or refuses it, or a clock for it.
var without atomic.Bool

// futexWaiter is struct futex_waitv, and futex32 its flag for words of 32 bits that processes share.
type futexWaiter struct {
	value, address  uint64
	flags, reserved uint32
}

const futex32 = 2

// mostWords is at how many words a thread sleeps at most: there are hardly as many plugins.
const mostWords = 32

// waitAny sleeps while *word is old and the others are 0, at most d, and returns by which it was woken. It does not
// touch the others, whose memory may be gone: the system looks at them.
func waitAny(word *uint32, old uint32, others []*uint32, d time.Duration) (woken uintptr, err unix.Errno) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, unix.ENOSYS
	}
	until := unix.NsecToTimespec(now.Nano() + int64(d))
	at := func(w *uint32) uint64 { return uint64(uintptr(unsafe.Pointer(w))) }
	words := [mostWords]futexWaiter{{value: uint64(old), address: at(word), flags: futex32}}
	others = others[:min(len(others), mostWords-1)]
	for i, w := range others {
		words[1+i] = futexWaiter{address: at(w), flags: futex32}
	}
	woken, _, err = unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&words[0])), uintptr(1+len(others)), 0,
		uintptr(unsafe.Pointer(&until)), unix.CLOCK_MONOTONIC, 0)
	runtime.KeepAlive(word)
	return woken, err
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
