package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/seed98097648/tune/internal/os/plainfile"
	"github.com/seed98097648/tune/trainer/distributed"
)

const (
	// headStart is how much earlier the first rank tells of an error than the others: what all have is said once, as
	// the first to leave ends them all. Open MPI does that with SIGTERM, and kills them a second later.
	headStart = 2 * time.Second
	// failPatience is how long a rank that has failed waits for the others to come to their ends, too, before it ends
	// them: what they are about may take longer, such as reading a large model.
	failPatience = 10 * time.Second
)

// leave ends this process's part in the job, and returns its exit code. If a rank has failed, all end: by themselves
// first, so that nothing is left behind.
func (a *app) leave(err error) int {
	if err == nil && a.world != nil {
		err = a.world.Close()
	}
	if err == nil || a.launch.Alone() {
		return a.report(err)
	}
	told, done := make(chan struct{}), make(chan *distributed.World, 1)
	go func() { // for no longer than this process lasts
		w, all := a.tell(err)
		if all {
			close(told)
		}
		done <- w
	}()
	code, world := a.reportOfRank(err, told), a.world
	select {
	case world = <-done:
	case <-time.After(failPatience):
	}
	if a.follows() { // the first ends all
		time.Sleep(headStart)
	}
	world.Abort(code)
	return code
}

// tell has all ranks know that this one has failed, and returns when all have come to their ends, or cannot be told.
// If it is not one of them yet, it joins them for that: they wait for it.
func (a *app) tell(err error) (w *distributed.World, all bool) {
	if w = a.world; w == nil {
		if a.joined {
			return nil, false // what has failed is that
		}
		var failed error
		if w, failed = distributed.Open(a.launch, distributed.Options{}); failed != nil {
			return w, false
		}
	}
	text := plainfile.ExplainFiles(err).Error()
	if errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	return w, w.Fail(text) == nil
}

// reportOfRank reports an error, unless the first rank does: one that all have been told.
func (a *app) reportOfRank(err error, told <-chan struct{}) int {
	if a.follows() {
		a.told.Store(true) // a signal is that of a launcher that ends the ranks
		a.asRank()
		select {
		case <-told:
			a.stderr = io.Discard
		case <-time.After(headStart):
		}
	}
	return a.report(err)
}

// asRank has a rank but the first keep to errors and warnings, with its name.
func (a *app) asRank() {
	if _, is := a.stderr.(*ofRank); a.follows() && !is {
		a.stdout, a.stderr = io.Discard, &ofRank{a.stderr, a.launch.Name()}
	}
}
