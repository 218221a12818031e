package simd

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed98097648/tune/internal/os/sandbox"
	"github.com/seed98097648/tune/internal/os/sched"
)

// TestWhatNoWorkerBeginsTheCallerDoes has a worker that never comes, as one comes late whose thread stands behind those of
// other processes: the caller does its part as well, once, and the worker is idle for the next.
func TestWhatNoWorkerBeginsTheCallerDoes(t *testing.T) {
	SetThreads(2)
	defer SetThreads(0)
	late, end, ended := &worker{}, make(chan struct{}), make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(ended)
		late.thread = sched.ThisThread()
		defer late.thread.Free()
		late.free()
		close(ready)
		<-end
	}()
	<-ready
	var seen [2]atomic.Int64
	for range 3 {
		Parallel(2, 1, func(lo, _ int) { seen[lo].Add(1) })
	}
	if !late.leave() {
		t.Error("the worker is not idle")
	}
	close(end)
	<-ended
	if seen[0].Load() != 3 || seen[1].Load() != 3 || late.last != 3 || late.given != 0 {
		t.Errorf("the parts were done %d and %d times, of %d that the worker was given, want 3; it has task %d still",
			seen[0].Load(), seen[1].Load(), late.last, late.given)
	}
}

// TestWhoSleepsWhereACoreIsHandedBackIsWokenForATask has workers that sleep at a word and do not look for tasks.
func TestWhoSleepsWhereACoreIsHandedBackIsWokenForATask(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3)) // Go's scheduler is not told that two of them sleep
	var word uint32
	var woken atomic.Int32
	var tired atomic.Bool
	end := make(chan struct{})
	var asleep, ended sync.WaitGroup
	workers := []*worker{{}, {}}
	for _, w := range workers {
		ready := make(chan struct{})
		asleep.Add(1)
		ended.Go(func() {
			w.thread = sched.ThisThread()
			defer w.thread.Free()
			w.free()
			close(ready)
			for w.sleep(tired.Load, &word) {
				w.free()
			}
			if !tired.Load() {
				woken.Add(1)
			}
			asleep.Done()
			<-end
		})
		<-ready
	}
	for n := 0; woken.Load() < 2 && n < 1000; n++ {
		start(func(free func()) { free() }).takeBack()
		time.Sleep(100 * time.Microsecond)
	}
	tired.Store(true)
	asleep.Wait()
	for _, w := range workers {
		w.leave()
	}
	close(end)
	ended.Wait()
	if woken.Load() < 2 {
		t.Errorf("%d of 2 woke up for 1,000 tasks", woken.Load())
	}
}

// TestAPluginsWorkersStay asks a process whose timers are late, as a plugin's are, how many of its workers are idle after
// twice the time after which others end, in which a task still reaches one.
func TestAPluginsWorkersStay(t *testing.T) {
	if cmd := sandbox.Again(t); cmd != nil {
		runtime.LockOSThread() // the child inherits the timers of this thread
		defer runtime.UnlockOSThread()
		restore := sched.CoarseTimers()
		cmd.Args, cmd.Stdout, cmd.Stderr = append(cmd.Args, "-test.v"), nil, nil
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("an emulator runs this program, and the system does not")
		}
		if err := errors.Join(err, restore()); err != nil {
			t.Errorf("%v\n%s", err, out)
		} else if bytes.Contains(out, []byte("--- SKIP")) {
			t.Skipf("%s", out)
		}
		return
	}
	if !sched.Coarse() {
		t.Skip("the system does not let timers be late")
	}
	SetThreads(2)
	Parallel(2, 1, func(int, int) {})
	time.Sleep(2 * lifetime)
	idle.Lock()
	workers := slices.Clone(idle.workers)
	idle.Unlock()
	if len(workers) != 1 {
		t.Fatalf("%d workers are idle, want 1", len(workers))
	}
	begun := make(chan struct{})
	start(func(free func()) { free(); close(begun) })
	<-begun
}

// TestATaskIsBegunOrTakenBack has callers and workers compete for tasks: each is done once.
func TestATaskIsBegunOrTakenBack(t *testing.T) {
	var begun, back atomic.Int64
	for range 2000 {
		done := make(chan struct{})
		g := start(func(free func()) {
			begun.Add(1)
			free()
			close(done)
		})
		if g.takeBack() {
			back.Add(1)
			continue
		}
		<-done
		if g.takeBack() {
			t.Fatal("a task that is done was taken back")
		}
	}
	if n := begun.Load() + back.Load(); n != 2000 {
		t.Errorf("%d tasks, want 2000: %d were begun, %d taken back", n, begun.Load(), back.Load())
	}
}

// TestWorkersThatAreHandedACoreTakeTasks has the process take turns with itself: workers rest, wake each other, sleep and
// are woken, with a task on its way to them at any of these moments.
func TestWorkersThatAreHandedACoreTakeTasks(t *testing.T) {
	SetThreads(3)
	defer SetThreads(0)
	var word uint32
	turn := &sched.Turn{Theirs: &word, Ours: &word}
	defer turn.End()
	var sum atomic.Int64
	for n := range 3000 {
		Parallel(3, 1, func(lo, hi int) { sum.Add(int64(hi - lo)) })
		sched.RestFor(turn)
		if n%3 == 0 {
			sched.HandOver()
		}
		if n%100 == 0 {
			time.Sleep(2 * awake) // they sleep
		}
	}
	if sum.Load() != 3*3000 {
		t.Errorf("%d parts were done, want %d", sum.Load(), 3*3000)
	}
}
