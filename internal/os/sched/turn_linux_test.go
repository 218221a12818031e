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

// sleeper sleeps at the word, again and again, until end is called, and says each time why it woke up.
func sleeper(t *testing.T, word *uint32) (woke <-chan sched.Woke, thread int, end func()) {
	t.Helper()
	before := runtime.GOMAXPROCS(2) // one for each of two goroutines: Go's scheduler is not told of a sleep
	var tired atomic.Bool
	said, number, ended := make(chan sched.Woke, 1), make(chan int), make(chan struct{})
	go func() {
		defer close(ended)
		th := sched.ThisThread()
		defer th.Free()
		number <- th.Number()
		for !tired.Load() {
			select {
			case said <- sched.Wait(word, 0, time.Second):
			default:
			}
		}
	}()
	return said, <-number, func() {
		tired.Store(true)
		sched.WakeAll(word)
		<-ended
		runtime.GOMAXPROCS(before)
	}
}

// until calls f until who sleeps says that, for 10 s.
func until(t *testing.T, woke <-chan sched.Woke, want sched.Woke, f func()) {
	t.Helper()
	for range 10_000 {
		f()
		select {
		case got := <-woke:
			if got == want {
				return
			}
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatal("whoever sleeps did not wake up")
}

// called reports whether somebody wakes who sleeps, for a while in which f is called again and again.
func called(t *testing.T, woke <-chan sched.Woke, f func()) bool {
	t.Helper()
	until(t, woke, sched.Late, func() {}) // whatever was on its way before has come
	for range 20 {
		f()
		select {
		case got := <-woke:
			if got == sched.Called {
				return true
			}
		case <-time.After(time.Millisecond):
		}
	}
	return false
}

func TestWhoHandsOverWakesTheOther(t *testing.T) {
	var theirs, ours, other uint32
	turn := &sched.Turn{Theirs: &theirs, Ours: &ours}
	woke, _, end := sleeper(t, &theirs)
	defer end()
	hand := func() {
		if back := sched.HandOver(); back != &ours {
			t.Errorf("the core is handed back at %p, want %p", back, &ours)
		}
	}
	before := sched.Rests()
	if sched.RestFor(turn); sched.Rests() == before {
		t.Error("nobody is told to rest")
	}
	until(t, woke, sched.Called, hand)

	nobody := func() {
		if back := sched.HandOver(); back != nil {
			t.Errorf("the core is handed over to nobody, and back at %p", back)
		}
	}
	before = sched.Rests()
	if sched.RestFor(nil); sched.Rests() == before {
		t.Error("nobody is told to rest")
	}
	if called(t, woke, nobody) {
		t.Error("woken when it is nobody's turn")
	}
	sched.RestFor(turn)
	(&sched.Turn{Theirs: &other, Ours: &other}).End()
	until(t, woke, sched.Called, hand)
	turn.End()
	if called(t, woke, nobody) {
		t.Error("woken when there are no more turns")
	}
}

func TestWhoEndsTurnsWakesItsOwn(t *testing.T) {
	var theirs, ours uint32
	turn := &sched.Turn{Theirs: &theirs, Ours: &ours}
	woke, _, end := sleeper(t, &ours)
	defer end()
	until(t, woke, sched.Called, turn.End)
}

// TestASleepWithoutALimitIsNeverLate: a plugin that has nothing to do sleeps so, and would be busy otherwise.
func TestASleepWithoutALimitIsNeverLate(t *testing.T) {
	var word uint32
	woke := make(chan sched.Woke, 1)
	go func() {
		why := sched.Signalled
		for why == sched.Signalled {
			why = sched.Wait(&word, 0, 0)
		}
		woke <- why
	}()
	until(t, woke, sched.Called, func() { sched.Wake(&word) })
}

// TestTheWorldStopsWhileAThreadSleeps collects garbage, for which the world is stopped, while a thread sleeps of which
// Go's scheduler is not told: its signals, for that or because it has waited for long, end the sleep.
func TestTheWorldStopsWhileAThreadSleeps(t *testing.T) {
	if sched.Coarse() {
		t.Skip("Go's scheduler is told of every sleep, as timers are late here")
	}
	var word uint32
	woke, thread, end := sleeper(t, &word)
	defer end()
	until(t, woke, sched.Signalled, func() {
		for !sleeps(t, thread) {
			time.Sleep(100 * time.Microsecond)
		}
		runtime.GC()
	})
}

// sleeps reports whether the thread is asleep, by its state in /proc.
func sleeps(t *testing.T, thread int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "S")
}

// TestWhoCannotSleepIsTold has words that the other process has changed, and one whose memory is gone.
func TestWhoCannotSleepIsTold(t *testing.T) {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_NONE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(page) })
	gone, changed := (*uint32)(unsafe.Pointer(unsafe.SliceData(page))), uint32(1)
	for name, word := range map[string]*uint32{"changed": &changed, "gone": gone} {
		if woke := sched.Wait(word, 0, time.Second); woke != sched.Refused {
			t.Errorf("%s: woken for the reason %v, want %v", name, woke, sched.Refused)
		}
		sched.WakeAll(word)
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
