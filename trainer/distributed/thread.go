package distributed

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed98097648/tune/internal/os/sched"
)

// job is something that the thread brings about: it calls advance, which starts it, until it is done. Jobs are started
// in the order in which they were given.
type job struct {
	advance func() (done bool, err error)
	over    func(error)
}

// thread owns the link.
type thread struct {
	jobs  chan *job
	done  sync.WaitGroup
	awake atomic.Bool // what is under way is looked at without a pause
}

func startThread() *thread {
	t := &thread{jobs: make(chan *job, 64)}
	t.done.Go(t.run)
	return t
}

// stop ends the thread once all jobs are done.
func (t *thread) stop() {
	close(t.jobs)
	t.done.Wait()
}

// do has a job done that one call brings about.
func (t *thread) do(f func() error) error {
	done := make(chan error, 1)
	t.jobs <- &job{func() (bool, error) { return true, f() }, func(err error) { done <- err }}
	return <-done
}

// Between two looks at what is under way the thread first yields a few times, then sleeps ever longer: the cores are
// for whoever computes.
const (
	yields  = 20
	soonest = 50 * time.Microsecond
	latest  = time.Millisecond
)

func (t *thread) run() {
	runtime.LockOSThread()
	var pending []*job
	timer := time.NewTimer(0)
	for idle := 0; ; idle++ {
		more, open := t.take(len(pending), idle, timer)
		if len(more) > 0 {
			pending, idle = append(pending, more...), 0
		}
		if !open && len(pending) == 0 {
			return
		}
		before := len(pending)
		pending = slices.DeleteFunc(pending, func(j *job) bool {
			done, err := j.advance()
			if done || err != nil {
				j.over(err)
			}
			return done || err != nil
		})
		if len(pending) < before {
			idle = 0
		}
	}
}

// take waits for more jobs: for the first one if nothing is pending, and a moment at most otherwise.
func (t *thread) take(pending, idle int, timer *time.Timer) (more []*job, open bool) {
	var first *job
	switch {
	case pending == 0:
		first, open = <-t.jobs
	case idle < yields || t.awake.Load():
		sched.Yield()
		return nil, true
	default:
		timer.Reset(min(latest, soonest<<min(idle-yields, 10)))
		select {
		case first, open = <-t.jobs:
		case <-timer.C:
			return nil, true
		}
	}
	for ; open; first, open = t.next() {
		if first == nil {
			return more, true
		}
		more = append(more, first)
	}
	return more, false
}

// next returns a job that is there already, else nil.
func (t *thread) next() (j *job, open bool) {
	select {
	case j, open = <-t.jobs:
		return j, open
	default:
		return nil, true
	}
}
