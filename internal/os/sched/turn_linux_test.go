package sched_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/sched"
)

// takesTurns skips a test where no thread can sleep on several words. It has a processor for each of two goroutines.
func takesTurns(t *testing.T) {
	t.Helper()
	if _, _, err := unix.Syscall6(unix.SYS_FUTEX_WAITV, 0, 0, 0, 0, 0, 0); err != unix.EINVAL {
		t.Skip("no futex_waitv: ", err)
	}
	before := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// handOver hands over at the word until somebody who sleeps has it.
func handOver(t *testing.T, word *uint32) {
	t.Helper()
	var handed, tired atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for own := new(uint32); !handed.Load() && !tired.Load(); {
			if sched.Sleep(own, 0, time.Second) {
				handed.Store(true)
			}
		}
	}()
	for range 10_000 {
		if handed.Load() {
			break
		}
		sched.RestFor(word)
		sched.HandOver()
		time.Sleep(100 * time.Microsecond)
	}
	tired.Store(true)
	if <-ended; !handed.Load() {
		t.Fatal("nobody who sleeps was handed over to")
	}
}

// sleepsOn reports whether nobody hands over for a while.
func sleepsOn() bool {
	for own, n := new(uint32), 0; n < 100; n++ {
		if sched.Sleep(own, 0, time.Millisecond) {
			return false
		}
	}
	return true
}

func TestHandingOverEndsTheSleepOfWhoListens(t *testing.T) {
	takesTurns(t)
	var word, other uint32
	stopOther, stop := sched.Listen(&other), sched.Listen(&word)
	defer stopOther()
	handOver(t, &word)
	if !sleepsOn() {
		t.Error("handed over to by nobody")
	}
	stop()
	var ended atomic.Bool
	go func() {
		for !ended.Load() {
			sched.RestFor(&word)
			sched.HandOver()
			time.Sleep(100 * time.Microsecond)
		}
	}()
	if !sleepsOn() {
		t.Error("handed over to at a word that it no longer listens to")
	}
	ended.Store(true)
	handOver(t, &other)
}

// TestRestForNobodyHandsOverToNobody: who waits actively rests as before, and the one whose turn it was is not woken.
func TestRestForNobodyHandsOverToNobody(t *testing.T) {
	takesTurns(t)
	var word uint32
	defer sched.Listen(&word)()
	sched.RestFor(&word)
	before := sched.Rests()
	sched.RestFor(nil)
	if sched.Rests() == before {
		t.Error("RestFor changed nothing")
	}
	tired, handed := make(chan struct{}), make(chan bool)
	go func() {
		to := false
		for {
			to = sched.HandOver() || to
			select {
			case <-tired:
				handed <- to
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	if !sleepsOn() {
		t.Error("handed over to by somebody")
	}
	if close(tired); <-handed {
		t.Error("handed over to somebody")
	}
}

// TestTheWorldStopsWhileAThreadSleeps collects garbage, for which the world is stopped, while a thread sleeps.
func TestTheWorldStopsWhileAThreadSleeps(t *testing.T) {
	takesTurns(t)
	var word uint32
	defer sched.Listen(&word)()
	own := new(uint32)
	var thread atomic.Int64
	var awake atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		th := sched.ThisThread()
		defer th.Free()
		thread.Store(int64(th.Number()))
		for atomic.LoadUint32(own) == 0 {
			sched.Sleep(own, 0, 20*time.Second)
			awake.Store(true)
		}
	}()
	for !sleeps(t, thread.Load()) {
		time.Sleep(time.Millisecond)
	}
	runtime.GC()
	if awake.Load() {
		t.Error("a thread had to wake up for the world to be stopped")
	}
	atomic.StoreUint32(own, 1)
	for done := false; !done; {
		sched.Wake(own)
		select {
		case <-ended:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
}

// sleeps reports whether the thread is asleep, by its state in /proc; 0 is no thread.
func sleeps(t *testing.T, thread int64) bool {
	if thread == 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "S")
}

// TestASleepIsWhatItWasWhateverOthersDo has words that the other process has changed, and one whose memory is gone.
func TestASleepIsWhatItWasWhateverOthersDo(t *testing.T) {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	gone, changed := (*uint32)(unsafe.Pointer(&page[0])), uint32(1)
	if err := unix.Munmap(page); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]*uint32{"changed": &changed, "gone": gone} {
		t.Run(name, func(t *testing.T) {
			defer sched.Listen(at)()
			var own uint32
			if sched.Sleep(&own, 0, 5*time.Millisecond) { // ends
				t.Error("handed over to by nobody")
			}
			start := time.Now()
			for range 20 {
				sched.Sleep(&own, 0, 5*time.Millisecond)
			}
			if time.Since(start) < time.Millisecond {
				t.Error("20 sleeps of 5 ms were no sleeps")
			}
			var woken atomic.Bool
			go func() {
				defer woken.Store(true)
				for atomic.LoadUint32(&own) == 0 {
					sched.Sleep(&own, 0, time.Second)
				}
			}()
			atomic.StoreUint32(&own, 1)
			for !woken.Load() {
				sched.Wake(&own)
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestAThreadIsPutOntoACore looks at the set of cores that the thread may use.
func TestAThreadIsPutOntoACore(t *testing.T) {
	th := sched.ThisThread()
	defer th.Free()
	var all, one, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	put := sched.PutHere(th.Number())
	if many := all.Count() > 4; put == many {
		t.Errorf("put onto a core: %v, on a machine of %d cores", put, all.Count())
	}
	if err := unix.SchedGetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	if put && one.Count() != 1 {
		t.Errorf("the thread may use %d cores, want 1", one.Count())
	}
	th.Anywhere()
	if err := unix.SchedGetaffinity(0, &after); err != nil {
		t.Fatal(err)
	}
	if after != all {
		t.Errorf("the thread may use %d cores of %d afterwards", after.Count(), all.Count())
	}
	if sched.PutHere(-1) {
		t.Error("a thread that there is not was put somewhere")
	}
}
