package sched_test

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/sched"
)

// handOver hands over at the word until done says so.
func handOver(word *uint32, done func() bool) {
	for !done() {
		sched.RestFor(word)
		sched.HandOver()
		time.Sleep(100 * time.Microsecond)
	}
}

// sleeper sleeps on a word of its own, which stays 0, until it has been handed over to.
func sleeper(handed *atomic.Bool) {
	for own := new(uint32); !handed.Load(); {
		handed.Store(sched.Sleep(own, 0, time.Second))
	}
}

func TestHandingOverEndsTheSleepOfWhoListens(t *testing.T) {
	var word, other uint32
	stopOther, stop := sched.Listen(&other), sched.Listen(&word)
	defer stopOther()
	var handed atomic.Bool
	go sleeper(&handed)
	handOver(&word, handed.Load)

	stop()
	word = 7 // as if the memory were another's by now
	if handed.Store(false); sched.Sleep(new(uint32), 0, time.Millisecond) {
		t.Error("handed over to by nobody")
	}
	go sleeper(&handed)
	handOver(&other, handed.Load)
}

// TestRestForNobodyHandsOverToNobody: who waits actively rests as before.
func TestRestForNobodyHandsOverToNobody(t *testing.T) {
	before := sched.Rests()
	sched.RestFor(nil)
	sched.HandOver()
	if sched.Rests() == before {
		t.Error("RestFor changed nothing")
	}
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
