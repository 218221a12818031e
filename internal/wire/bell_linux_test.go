package wire

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed98097648/tune/internal/os/sched"
)

// TestIdleIsWhatTheNextWaitDoes: who calls gives its core away only if it will not look at the word from there.
func TestIdleIsWhatTheNextWaitDoes(t *testing.T) {
	var word uint32
	for _, limit := range []time.Duration{0, time.Nanosecond} {
		s := &Spinner{Limit: limit}
		looked := 0
		for n := range 3 * spinRetry {
			idle, misses := s.Idle(), s.misses
			s.on(&word, 0)
			spun := limit > 0 && (misses < spinMisses || s.misses%spinRetry == 0)
			if idle == spun {
				t.Errorf("wait %d with limit %v: idle is %v, and it looked: %v", n, limit, idle, spun)
			}
			if spun {
				looked++
			}
		}
		if want := map[bool]int{true: spinMisses + 3}[limit > 0]; looked != want {
			t.Errorf("with limit %v it looked %d times, want %d", limit, looked, want)
		}
	}
}

// TestACallBringsThePluginsThreadAlong: the thread that waits for requests, if it sleeps, is put onto the core of
// who calls, and may run on every core again when it has seen the request. The other cores are handed over and back.
func TestACallBringsThePluginsThreadAlong(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	bells := NewBells(make([]byte, ControlSize))
	if bells.Offered() != 0 {
		t.Fatal("a thread is offered before there is one")
	}
	handedBackAt := func(when string, word int) {
		back, want := sched.HandOver(), (*uint32)(unsafe.Pointer(&bells.mem[word]))
		if !bells.here() {
			want = nil
		}
		if back != want {
			t.Errorf("%s: cores are handed back at %p, want %p", when, back, want)
		}
	}
	sets := make(chan unix.CPUSet)
	go func() {
		th := bells.Offer()
		defer th.Free()
		sets <- all
		for number := uint32(0); number < 4; {
			number = bells.AwaitRequest(number, &Spinner{}, th)
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(0, &set); err != nil {
				t.Error(err)
			}
			handedBackAt("asked", OffHostIdle)
			bells.Give(number, Answer{})
			handedBackAt("answered", OffPluginIdle)
			sets <- set
		}
	}()
	<-sets
	if bells.Offered() <= 0 {
		t.Fatalf("thread %d is offered", bells.Offered())
	}
	for number := uint32(1); number <= 4; number++ {
		thread := 0
		if number%2 == 0 {
			thread = bells.Offered()
		}
		for atomic.LoadUint32(bells.pluginAsleep) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		bells.Ask(number, Call, 0, thread)
		set := <-sets
		if put := thread != 0 && all.Count() <= 4; put != bells.here() {
			t.Errorf("request %d: put onto the caller's core: %v, want %v", number, bells.here(), put)
		}
		if set != all {
			t.Errorf("request %d: answered on one of %d cores, want %d", number, set.Count(), all.Count())
		}
	}
}
