package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/seed98097648/tune/trainer/distributed"
)

// abortGrace is how long a run may take to clean up after the second interrupt.
const abortGrace = 5 * time.Second

// interrupts turns SIGINT, SIGTERM and SIGHUP into the end of a context, which lets a run
// finish its step and save, and a SIGINT or SIGTERM after that into a closed channel,
// which makes it give up. What has not given up in time, because it is in the middle of a
// long computation, ends with the process; plugins notice that and end too.
//
// A terminal that is closed sends SIGHUP more than once, from the system and from the
// shell, so that only the first counts; under nohup none does. SIGPIPE is taken and
// dropped: a run whose output nobody reads any more goes on and saves.
func interrupts() (ctx context.Context, abort <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, hangup, pipe := make(chan os.Signal, 2), make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	signal.Notify(pipe, syscall.SIGPIPE)
	second := make(chan struct{})
	end := meanwhile(func(done <-chan struct{}) {
		defer cancel()
		select {
		case <-signals:
		case <-hangup:
		case <-done:
			return
		}
		cancel()
		select {
		case <-signals:
		case <-done:
			return
		}
		close(second)
		select {
		case <-done:
		case <-time.After(abortGrace):
			os.Exit(exitInterrupted)
		}
	})
	return ctx, second, func() {
		for _, c := range []chan os.Signal{signals, hangup, pipe} {
			signal.Stop(c)
		}
		end()
	}
}

// meanwhile runs f beside all else until stop is called, which closes done and waits for f.
func meanwhile(f func(done <-chan struct{})) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { f(done) })
	return func() {
		close(done)
		wg.Wait()
	}
}

// tellOfInterrupt says so when a command that was interrupted does not end at once, as in the
// middle of a large batch, until stop is called. A launcher ends ranks in the same way when one has died, and then
// kills them: of these the first says it, and later.
func (a *app) tellOfInterrupt(ctx context.Context, patience time.Duration) (stop func()) {
	switch l := distributed.Detect(); {
	case l.Rank > 0:
		return func() {}
	case !l.Alone():
		patience += headStart
	}
	return meanwhile(func(done <-chan struct{}) {
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		select {
		case <-time.After(patience):
		case <-done:
			return
		}
		if !a.told.Swap(true) {
			a.note("interrupted: ending what is being computed; interrupt again to give up at once")
		}
	})
}
