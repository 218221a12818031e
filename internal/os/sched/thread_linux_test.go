package sched_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/sched"
)

func TestWakeEndsAWait(t *testing.T) {
	var word, done uint32
	go func() {
		for atomic.LoadUint32(&word) == 0 {
			sched.Wait(&word, 0, 0)
		}
		atomic.StoreUint32(&done, 1)
	}()
	time.Sleep(20 * time.Millisecond) // for the other to fall asleep: then only Wake ends its wait
	atomic.StoreUint32(&word, 1)
	for atomic.LoadUint32(&done) == 0 {
		sched.Wake(&word)
		time.Sleep(time.Millisecond)
	}
	sched.Wait(&word, 0, 0)                   // does not sleep: the word is not 0
	sched.Wait(&word, 1, 20*time.Millisecond) // sleeps no longer than that
}

// TestAThreadIsKeptOffItsWakersCore looks at the set of cores that the thread may use.
func TestAThreadIsKeptOffItsWakersCore(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	th := sched.ThisThread()
	count := func() int {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set.Count()
	}
	th.KeepOff()
	if want := max(all.Count()-1, 1); count() != want {
		t.Errorf("the thread may use %d cores of %d, want %d", count(), all.Count(), want)
	}
	th.Free()
	if count() != all.Count() {
		t.Errorf("the thread may use %d cores of %d once it is free", count(), all.Count())
	}
}

func TestCoarseTimersAreRestored(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack := func() int {
		n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil {
			t.Skip(err)
		}
		return n
	}
	before := slack()
	restore := sched.CoarseTimers()
	if slack() <= before {
		t.Errorf("a slack of %d ns, %d before", slack(), before)
	}
	if err := restore(); err != nil {
		t.Error(err)
	}
	if slack() != before {
		t.Errorf("a slack of %d ns afterwards, %d before", slack(), before)
	}
}
