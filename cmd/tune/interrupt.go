package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// abortGrace is how long a run may take to clean up after the second interrupt.
const abortGrace = 5 * time.Second

// interrupts turns SIGINT and SIGTERM into the end of a context, which lets a run finish
// its step and save, and the second of them into a closed channel, which makes it give
// up. What has not given up in time, because it is in the middle of a long computation,
// ends with the process; plugins notice that and end too.
func interrupts() (ctx context.Context, abort <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	second, done := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		if !next(signals, done) {
			return
		}
		cancel()
		if !next(signals, done) {
			return
		}
		close(second)
		select {
		case <-done:
		case <-time.After(abortGrace):
			os.Exit(exitInterrupted)
		}
	})
	return ctx, second, func() { signal.Stop(signals); close(done); wg.Wait() }
}

// next waits for a signal; it reports false when the program is done before.
func next(signals <-chan os.Signal, done <-chan struct{}) bool {
	select {
	case <-signals:
		return true
	case <-done:
		return false
	}
}
